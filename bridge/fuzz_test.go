package bridge

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// The targets look for panics, and for requests that are refused but change
// something they should not.

func FuzzFDBExt(f *testing.F) {
	f.Add(nest(uapi.NDAFDBExtAttrs, a8(1, 3), nlattr.AppendFlag(nil, 2)))
	f.Add(plain(uapi.NDAFDBExtAttrs, a16(1, 3)))
	r := newRig(f, 1)
	f.Fuzz(func(t *testing.T, data []byte) {
		as, _ := nlattr.Parse(data, 0)
		for _, a := range as {
			err := r.b.FDBAdd(r.port(1), FDBRequest{MAC: macA, State: noarp, NLFlags: create, Ext: a, HasExt: true})
			if n := len(r.events()); err != nil && n != 0 {
				t.Errorf("%v with %d events", err, n)
			}
		}
	})
}

func FuzzFlush(f *testing.F) {
	f.Add(uint16(0), uint8(0), slices.Concat(a16(uapi.NDAVLAN, 1), a32(uapi.NDAIfindex, 1), a16(16, 0xc0), a8(17, 1)))
	r := newRig(f, 2)
	f.Fuzz(func(t *testing.T, state uint16, flags uint8, data []byte) {
		as, left := nlattr.Parse(data, 0)
		_ = r.b.FDBAdd(nil, FDBRequest{MAC: macA, State: permanent, NLFlags: create})
		r.events()
		err := r.b.FDBFlush(nil, uapi.Ndmsg{State: state, Flags: flags}, as, left)
		if n := len(r.events()); err != nil && n != 0 {
			t.Errorf("%v with %d events", err, n)
		}
	})
}

func FuzzInfo(f *testing.F) {
	f.Add(slices.Concat(a32(1, 100), a32(4, 555), a16(6, 1), abytes(20, 1, 0x80, 0xc2, 0, 0, 4), boolopt(1, 1), a64(33, 5), a8(23, 0)))
	f.Add(boolopt(1<<31, 1<<31))
	r := newRig(f, 1)
	f.Fuzz(func(t *testing.T, data []byte) {
		as, _ := nlattr.Parse(data, 0)
		if CheckInfo(as, true) == nil {
			_ = r.b.SetInfo(as)
		}
		_ = r.port(1).SetInfo(as)
		body, left := nlattr.Parse(r.b.AppendInfo(nil), 0)
		if len(body) != 42 || left != 0 {
			t.Errorf("%d attributes", len(body))
		}
		r.events()
	})
}

func FuzzMDB(f *testing.F) {
	f.Add(uint8(0), slices.Concat(entry4(1, 0, groupG).attr(), setAttrs(mode(1), sources(1, 2), a8(4, 5))))
	f.Add(uint8(1), slices.Concat(mdbEntry{ifindex: 1, state: 1, addr: [16]byte{1}}.attr(), setAttrs(source(1, 2, 3, 4))))
	f.Add(uint8(2), slices.Concat(mdbEntry{}.attr(), setAttrs(a8(10, 1))))
	r := newRig(f, 2)
	_ = r.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_IGMP_VERSION, 3)))
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		as, _ := nlattr.Parse(data, 16)
		switch kind % 4 {
		case 0:
			_ = r.b.MDBRequest(unix.RTM_NEWMDB, uapi.NLMReplace, as)
		case 1:
			_ = r.b.MDBRequest(unix.RTM_NEWMDB, 0, as)
		case 2:
			_ = r.b.MDBRequest(unix.RTM_DELMDB, uint16(kind)<<4, as)
		case 3:
			_, _ = r.b.MDBGet(as)
		}
		describeMDB(r.b.MDBDump())
		n := 0
		for _, g := range r.b.mdb.list {
			n += len(g.ports)
			if len(g.ports) == 0 && !g.host {
				t.Errorf("group %v without members", g.key)
			}
		}
		if m := r.port(1).mcast.groups + r.port(2).mcast.groups; n != int(m) {
			t.Errorf("%d memberships, ports count %d", n, m)
		}
		r.events()
	})
}

func FuzzInput(f *testing.F) {
	f.Add(uint32(0), ether(broadcast, macA))
	f.Add(uint32(portLocked|portMAB|portLearning), ether(0x0180c2000002, macA))
	f.Add(uint32(portHairpin), udp4(groupG, 1))
	f.Add(uint32(0), []byte{1, 2, 3})
	v6 := ether(0x333300000001, macA, 0x86, 0xdd)
	v6[12], v6[13], v6[14] = 0x86, 0xdd, 0x60
	f.Add(uint32(0), v6)
	r := newRig(f, 3)
	_ = r.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_QUERIER, 1), a8(unix.IFLA_BR_MCAST_MLD_VERSION, 2)))
	r.mdbAdd(entry4(2, 1, groupG))
	r.clock.Advance(time.Minute)
	f.Fuzz(func(t *testing.T, flags uint32, data []byte) {
		p := r.port(1)
		p.flags = flags & (portHairpin | portIsolated | portLocked | portMAB | portLearning)
		r.b.publish()
		keep := slices.Clone(data)
		r.send(p, data)
		r.send(nil, data)
		for _, o := range append([]interface{ Take() []packet }{}, takers(r)...) {
			for _, q := range o.Take() {
				if !slices.Equal(q.Data, keep) {
					t.Error("a frame was changed")
				}
			}
		}
		r.events()
	})
}

// TestCheckDoesNotPanic covers what the fuzz targets reach seldom.
func TestShortFrames(t *testing.T) {
	r := newRig(t, 2)
	for n := range 80 {
		f := ether(0x333300000001, macA, make([]byte, 80)...)[:n]
		if n > 14 {
			f[12], f[13], f[14] = 0x86, 0xdd, 0x60
		}
		r.send(r.port(1), f)
		fr := netdev.NewFrame(f)
		if n >= etherHeader {
			classify(fr)
		}
	}
}
