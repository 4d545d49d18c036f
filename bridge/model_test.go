package bridge

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// modelRow and model are the table as one would write it without a care for speed:
// rows in a list, every rule spelled out.
type modelRow struct {
	mac                         uapi.MAC
	dst                         int // ifindex
	local, static, sticky, user bool
	ext, learned                bool
	updated                     time.Duration
}

type model struct {
	rows   []*modelRow // newest first
	hold   time.Duration
	max    int
	events []string
}

func (m *model) find(mac uapi.MAC) *modelRow {
	for _, r := range m.rows {
		if r.mac == mac {
			return r
		}
	}
	return nil
}

func (m *model) state(r *modelRow, now time.Duration) uint16 {
	if r.local {
		return permanent
	}
	if r.static {
		return noarp
	}
	if !r.ext && r.updated+m.hold <= now {
		return uapi.NUDStale
	}
	return reachable
}

func (m *model) line(r *modelRow, now time.Duration) string {
	s := fmt.Sprintf("%v dev%d %02x", r.mac, r.dst, m.state(r, now))
	var flags int
	if r.ext {
		flags |= uapi.NTFExtLearned
	}
	if r.sticky {
		flags |= uapi.NTFSticky
	}
	if flags != 0 {
		s += fmt.Sprintf(" flags %02x", flags)
	}
	return s
}

func (m *model) tell(r *modelRow, now time.Duration) { m.events = append(m.events, m.line(r, now)) }

func (m *model) drop(now time.Duration, which func(*modelRow) bool) {
	m.rows = slices.DeleteFunc(m.rows, func(r *modelRow) bool {
		if which(r) {
			m.events = append(m.events, "del "+m.line(r, now))
			return true
		}
		return false
	})
}

func (m *model) insert(r *modelRow, now time.Duration) {
	r.updated = now
	m.rows = slices.Insert(m.rows, 0, r)
	m.tell(r, now)
}

// seen is a frame with that source, or a request with NTF_USE.
func (m *model) seen(mac uapi.MAC, port int, byUser bool, now time.Duration) {
	r := m.find(mac)
	if r == nil {
		n := 0
		for _, r := range m.rows {
			if r.learned {
				n++
			}
		}
		if byUser || m.max == 0 || n < m.max {
			m.insert(&modelRow{mac: mac, dst: port, user: byUser, learned: !byUser}, now)
		}
		return
	}
	if r.local {
		return
	}
	r.updated = now
	moved := r.dst != port && !r.sticky
	if moved {
		r.dst, r.ext = port, false
	}
	if byUser {
		r.user, r.learned = true, false
	}
	if moved {
		m.tell(r, now)
	}
}

func (m *model) external(mac uapi.MAC, port int, now time.Duration) {
	r := m.find(mac)
	if r == nil {
		m.insert(&modelRow{mac: mac, dst: port, ext: true, user: true, local: port == bridgeIndex}, now)
		return
	}
	changed := r.dst != port || !r.ext
	r.dst, r.ext, r.user, r.learned, r.updated = port, true, true, false, now
	r.local = r.local || port == bridgeIndex
	if changed {
		m.tell(r, now)
	}
}

func (m *model) add(q FDBRequest, port int, now time.Duration) syscall.Errno {
	if port == bridgeIndex && q.State&permanent == 0 || q.Flags&uapi.NTFSticky != 0 && q.State&permanent != 0 {
		return syscall.EINVAL
	}
	r := m.find(q.MAC)
	changed := r == nil
	if r == nil {
		if q.NLFlags&create == 0 {
			return syscall.ENOENT
		}
		r = &modelRow{mac: q.MAC, dst: port, updated: now}
		m.rows = slices.Insert(m.rows, 0, r)
	} else if q.NLFlags&excl != 0 {
		return syscall.EEXIST
	}
	if r.dst != port {
		r.dst, changed = port, true
	}
	r.user, r.learned = true, false
	if m.state(r, now) != q.State {
		changed = true
		r.local = q.State&permanent != 0
		r.static = q.State&(permanent|noarp) != 0
	}
	if sticky := q.Flags&uapi.NTFSticky != 0; sticky != r.sticky {
		r.sticky, changed = sticky, true
	}
	if changed {
		r.updated = now
		m.tell(r, now)
	}
	return 0
}

// TestModel runs random operations on the bridge and on the model and compares
// results, events and the whole table.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, 3)
		m := &model{hold: 300 * time.Second}
		m.rows = []*modelRow{
			{mac: portMAC(3), dst: 3, local: true, static: true}, {mac: portMAC(2), dst: 2, local: true, static: true},
			{mac: portMAC(1), dst: 1, local: true, static: true}, {mac: bridgeMAC, dst: bridgeIndex, local: true, static: true},
		}
		macs := []uapi.MAC{macA, macB, 0x020000000003, 0x020000000004, portMAC(1), bridgeMAC}
		drawMAC := rapid.SampledFrom(macs)
		drawPort := rapid.IntRange(1, 3)
		port := func(i int) *Port { return r.port(i) }
		if rapid.Bool().Draw(rt, "limited") {
			m.max = 2
			r.b.maxLearned.Store(2)
		}
		now := func() time.Duration { return r.clock.Now() }
		compare := func(what string) {
			r.b.fdbMu.Lock()
			defer r.b.fdbMu.Unlock()
			if got := r.events(); !slices.Equal(got, m.events) {
				rt.Fatalf("%s: events %q, want %q", what, got, m.events)
			}
			m.events = nil
			var got, want []string
			for e := range r.b.fdb.All() {
				got = append(got, describeRow(r.b.appendRow(nil, e, r.b.now())))
			}
			for _, x := range m.rows {
				want = append(want, m.line(x, now()))
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%s: rows %q, want %q", what, got, want)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"frame": func(rt *rapid.T) {
				p, mac := drawPort.Draw(rt, "port"), drawMAC.Draw(rt, "mac")
				r.send(port(p), ether(broadcast, mac))
				m.seen(mac, p, false, now())
				compare("frame")
			},
			"request": func(rt *rapid.T) {
				q := FDBRequest{
					MAC:     drawMAC.Draw(rt, "mac"),
					State:   rapid.SampledFrom([]uint16{2, 0x40, 0x42, 0x80, 0xc0}).Draw(rt, "state"),
					Flags:   rapid.SampledFrom([]uint8{0, 0, 0, uapi.NTFUse, uapi.NTFExtLearned, uapi.NTFSticky}).Draw(rt, "flags"),
					NLFlags: rapid.SampledFrom([]uint16{0, create, create | excl, create | replace, excl}).Draw(rt, "nlflags"),
				}
				i := rapid.IntRange(0, 3).Draw(rt, "port")
				dst := i
				if i == 0 {
					dst = bridgeIndex
				}
				var want syscall.Errno
				switch {
				case q.Flags == uapi.NTFUse && i == 0, q.Flags == uapi.NTFExtLearned && i == 0 && q.State&permanent == 0:
					want = syscall.EINVAL
				case q.Flags == uapi.NTFUse:
					m.seen(q.MAC, dst, true, now())
				case q.Flags == uapi.NTFExtLearned:
					m.external(q.MAC, dst, now())
				default:
					want = m.add(q, dst, now())
				}
				if err := r.b.FDBAdd(port(i), q); errnoOf(err) != want {
					rt.Fatalf("%+v: %v, want %v", q, err, want)
				}
				compare("request")
			},
			"delete": func(rt *rapid.T) {
				mac, i := drawMAC.Draw(rt, "mac"), rapid.IntRange(0, 3).Draw(rt, "port")
				dst := i
				if i == 0 {
					dst = bridgeIndex
				}
				want := syscall.ENOENT
				if x := m.find(mac); x != nil && x.dst == dst {
					want = 0
					m.drop(now(), func(y *modelRow) bool { return y == x })
				}
				if err := r.b.FDBDel(port(i), mac, 0); errnoOf(err) != want {
					rt.Fatalf("delete: %v, want %v", err, want)
				}
				compare("delete")
			},
			"time": func(rt *rapid.T) {
				// Whole multiples of the hold time: whoever is due is collected then.
				r.clock.Advance(m.hold)
				m.drop(now(), func(x *modelRow) bool {
					return !x.static && !x.local && !x.ext && x.updated+m.hold <= now()
				})
				slices.Sort(m.events)
				r.logMu.Lock()
				slices.Sort(r.log) // they may have been due at different times
				r.logMu.Unlock()
				compare("time")
			},
			"carrier": func(rt *rapid.T) {
				i := drawPort.Draw(rt, "port")
				change(port(i), func(l *netdev.LinkState) { l.Carrier = false })
				m.drop(now(), func(x *modelRow) bool { return x.dst == i && !x.static && !x.ext })
				change(port(i), func(l *netdev.LinkState) { l.Carrier = true })
				r.logMu.Lock()
				r.log = slices.DeleteFunc(r.log, func(s string) bool { return s[:2] == "f7" || s[:2] == "ca" })
				r.logMu.Unlock()
				compare("carrier")
			},
			"flush": func(rt *rapid.T) {
				st := rapid.SampledFrom([]uint16{0, noarp, permanent, 0xc0}).Draw(rt, "state")
				mask := rapid.SampledFrom([]uint16{noarp, permanent, 0xc0}).Draw(rt, "mask")
				err := r.b.FDBFlush(nil, uapi.Ndmsg{State: st}, attrs(a16(uapi.NDANdmStateMask, mask)), 0)
				if err != nil {
					rt.Fatal(err)
				}
				m.drop(now(), func(x *modelRow) bool {
					var bits uint16
					if x.local {
						bits |= permanent
					}
					if x.static {
						bits |= noarp
					}
					return bits&mask == st
				})
				compare("flush")
			},
		})
		n := 0
		for _, x := range m.rows {
			if x.learned {
				n++
			}
		}
		if got := int(r.b.nLearned.Load()); got != n {
			rt.Fatalf("n_learned %d, want %d", got, n)
		}
	})
}

func errnoOf(err error) syscall.Errno {
	var e *nlattr.Error
	if errors.As(err, &e) {
		return e.Errno
	}
	return 0
}
