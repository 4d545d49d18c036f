package vxlan

import (
	"fmt"
	"testing"

	"github.com/linkspan/linkspan/uapi"
	"pgregory.net/rapid"
)

// model is the table as section 2 describes it, without any cleverness: a list
// of entries, newest first.
type model struct {
	external bool
	vni      uint32
	limit    int
	rows     []*modelRow
	events   []string
}

type modelRow struct {
	mac   uapi.MAC
	vni   uint32
	state uint16
	flags uint8
	user  bool
	dst   []modelDst
}

type modelDst struct {
	ip   string
	port uint16
	vni  uint32
}

func (m *model) find(mac uapi.MAC, vni uint32) *modelRow {
	for _, r := range m.rows {
		if r.mac == mac && (r.vni == vni || !m.external && r.vni == m.vni) && (m.external || r.vni == m.vni) {
			return r
		}
	}
	return nil
}

func (m *model) show(r *modelRow, d modelDst) string {
	s := fmt.Sprintf("%s dst %s", r.mac, d.ip)
	if d.port != 0 && d.port != 4789 {
		s += fmt.Sprintf(" port %d", d.port)
	}
	if d.vni != m.vni {
		s += fmt.Sprintf(" vni %d", d.vni)
	}
	if m.external && r.vni != 0 {
		s += fmt.Sprintf(" src_vni %d", r.vni)
	}
	return s + fmt.Sprintf(" %02x/%02x", r.state, r.flags)
}

func (m *model) rowsShown() (out []string) {
	for _, r := range m.rows {
		for _, d := range r.dst {
			out = append(out, m.show(r, d))
		}
	}
	return out
}

func (m *model) add(nl uint16, mac uapi.MAC, src uint32, state uint16, flags uint8, d modelDst) string {
	several := mac == 0 || mac.Multicast()
	stored := flags &^ uapi.NTFUse
	r := m.find(mac, src)
	if r == nil {
		switch {
		case nl&flC == 0:
			return "ENOENT"
		case nl&flR != 0 && several:
			return "ENOTSUP"
		case m.limit > 0 && len(m.rows) >= m.limit:
			return "ENOSPC"
		}
		for _, o := range m.rows {
			if o.mac == mac && o.vni == src {
				return "EEXIST"
			}
		}
		r = &modelRow{mac: mac, vni: src, state: state, flags: stored, user: true, dst: []modelDst{d}}
		m.rows = append([]*modelRow{r}, m.rows...)
		m.events = append(m.events, "new "+m.show(r, d))
		return "ok"
	}
	if nl&flX != 0 {
		return "EEXIST"
	}
	changed := false
	if stored&uapi.NTFExtLearned == 0 || !r.user {
		changed = r.state != state || r.flags != stored || !r.user
		r.state, r.flags, r.user = state, stored, true
	}
	shown := r.dst[0]
	known := false
	for _, o := range r.dst {
		known = known || o == d
	}
	if nl&flR != 0 {
		if several {
			return `ENOTSUP "Cannot replace non-unicast fdb entries"`
		}
		if !known {
			r.dst[0] = d
			shown = d
			changed = true
		}
	}
	if nl&flA != 0 && several && !known {
		r.dst = append(r.dst, d)
		shown = d
		changed = true
	}
	if changed {
		m.events = append(m.events, "new "+m.show(r, shown))
	}
	return "ok"
}

func (m *model) drop(r *modelRow) {
	for i, o := range m.rows {
		if o == r {
			m.rows = append(m.rows[:i:i], m.rows[i+1:]...)
			break
		}
	}
	for _, d := range r.dst {
		m.events = append(m.events, "del "+m.show(r, d))
	}
}

func (m *model) del(mac uapi.MAC, src uint32, d modelDst) string {
	r := m.find(mac, src)
	if r == nil {
		return "ENOENT"
	}
	if d.ip != "0.0.0.0" {
		for i, o := range r.dst {
			if o == d && len(r.dst) > 1 {
				r.dst = append(r.dst[:i:i], r.dst[i+1:]...)
				m.events = append(m.events, "del "+m.show(r, d))
				return "ok"
			} else if o == d {
				m.drop(r)
				return "ok"
			}
		}
		return "ok"
	}
	m.drop(r)
	return "ok"
}

func (m *model) flush(src uint32, ip string) {
	for _, r := range append([]*modelRow(nil), m.rows...) {
		if src != 0 && r.vni != src {
			continue
		}
		if ip == "" {
			m.drop(r)
			continue
		}
		for _, d := range append([]modelDst(nil), r.dst...) {
			if d.ip != ip {
				continue
			}
			if len(r.dst) == 1 {
				m.drop(r)
				break
			}
			for i := range r.dst {
				if r.dst[i] == d {
					r.dst = append(r.dst[:i:i], r.dst[i+1:]...)
					break
				}
			}
			m.events = append(m.events, "del "+m.show(r, d))
		}
	}
}

// TestModel runs random requests against a device and the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		defer w.close()
		m := &model{external: rapid.Bool().Draw(rt, "external"), limit: rapid.SampledFrom([]int{0, 0, 3}).Draw(rt, "limit")}
		data := join(be16(xPort, 4789), u32(xLimit, uint32(m.limit)))
		if m.external {
			data = join(data, u8(xExternal, 1))
		} else {
			m.vni = 10
			data = join(data, u32(xID, 10))
		}
		s := script{w, w.must(data)}
		macs := rapid.SampledFrom([]uapi.MAC{0, macA, macB, macMC, macBC})
		ips := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "0.0.0.0"})
		attrs := func(rt *rapid.T) (src uint32, d modelDst, more []byte) {
			src = rapid.SampledFrom([]uint32{m.vni, m.vni, 55}).Draw(rt, "src")
			d = modelDst{ips.Draw(rt, "dst"), rapid.SampledFrom([]uint16{4789, 4789, 0, 5000}).Draw(rt, "port"), rapid.SampledFrom([]uint32{m.vni, 7}).Draw(rt, "vni")}
			return src, d, join(be16(uapi.NDAPort, d.port), u32(uapi.NDAVNI, d.vni), u32(uapi.NDASrcVNI, src))
		}
		check := func(got, want string) {
			if got != want {
				rt.Fatalf("got %s, want %s", got, want)
			}
			if g := fmt.Sprint(s.events()); g != fmt.Sprint(m.events) {
				rt.Fatalf("events\ngot  %s\nwant %s", g, m.events)
			}
			m.events = nil
			if g := fmt.Sprint(dump(s.d)); g != fmt.Sprint(m.rowsShown()) {
				rt.Fatalf("rows\ngot  %s\nwant %s", g, m.rowsShown())
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				src, d, more := attrs(rt)
				mac := macs.Draw(rt, "mac")
				nl := rapid.SampledFrom([]uint16{0, flC, flX, flR, flA, flC | flX, flC | flR, flC | flA}).Draw(rt, "nl")
				state := rapid.SampledFrom([]uint16{0xc0, 0x80, 2}).Draw(rt, "state")
				flags := rapid.SampledFrom([]uint8{2, 2, 0x12, 3}).Draw(rt, "flags")
				check(s.addState(nl, state, flags, mac, d.ip, more), m.add(nl, mac, src, state, flags, d))
			},
			"del": func(rt *rapid.T) {
				src, d, more := attrs(rt)
				mac := macs.Draw(rt, "mac")
				check(s.del(mac, ip(uapi.NDADst, d.ip), more), m.del(mac, src, d))
			},
			"flush": func(rt *rapid.T) {
				src := rapid.SampledFrom([]uint32{0, 0, m.vni, 55}).Draw(rt, "src")
				dst := rapid.SampledFrom([]string{"", "192.0.2.1", "0.0.0.0"}).Draw(rt, "dst")
				more := u32(uapi.NDASrcVNI, src)
				if dst != "" {
					more = join(more, ip(uapi.NDADst, dst))
				}
				m.flush(src, dst)
				check(showErr(flushFDB(s.d, neighMessage(testIfindex, 0, 2, more))), "ok")
			},
		})
	})
}
