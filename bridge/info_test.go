package bridge

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
)

func boolopt(val, mask uint32) []byte {
	return abytes(unix.IFLA_BR_MULTI_BOOLOPT, appendNative32(appendNative32(nil, val), mask)...)
}

// layout is attributes as the recorded transcripts show them: "type:length".
func layout(as nlattr.Attrs) (s string) {
	for i, a := range as {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprintf("%d:%d", a.Type, len(a.Data))
	}
	return s
}

func TestAttributeOrder(t *testing.T) {
	r := newRig(t, 2)
	as, left := nlattr.Parse(r.b.AppendInfo(nil), 0)
	const bridgeWant = "16:8 17:8 18:8 19:8 1:4 2:4 3:4 4:4 5:4 6:2 7:1 9:2 11:8 10:8 12:2 13:4 14:1 15:1 20:6 46:8 48:4 49:4 22:1 23:1 24:1 25:1 42:1 26:4 27:4 28:4 29:4 43:1 44:1 30:8 31:8 32:8 33:8 34:8 35:8 36:1 37:1 38:1"
	if got := layout(as); got != bridgeWant || left != 0 {
		t.Errorf("bridge:\n%s\n%s", got, bridgeWant)
	}
	set(t, r.port(1), a32(unix.IFLA_BRPORT_BACKUP_PORT, 2), a32(unix.IFLA_BRPORT_BACKUP_NHID, 9))
	as, left = nlattr.Parse(r.port(1).AppendInfo(nil), 0)
	const portWant = "1:1 2:2 3:4 4:1 5:1 6:1 7:1 28:1 8:1 9:1 27:1 30:1 10:1 12:1 13:8 14:8 15:2 16:2 17:2 18:2 19:1 20:1 29:1 31:2 32:1 35:1 36:1 33:1 39:1 40:1 43:1 21:8 22:8 23:8 25:1 37:4 38:4 41:4 42:4 34:4 44:4"
	if got := layout(as); got != portWant || left != 0 {
		t.Errorf("port:\n%s\n%s", got, portWant)
	}
}

// info reads one attribute of the bridge or of a port as a number.
func info(body []byte, t uint16) uint64 {
	as, _ := nlattr.Parse(body, 0)
	a, ok := as.Get(t)
	switch {
	case !ok:
		return 1<<64 - 1
	case len(a.Data) == 1:
		return uint64(a.U8())
	case len(a.Data) == 2:
		return uint64(a.U16())
	case len(a.Data) == 4:
		return uint64(a.U32())
	}
	return a.U64()
}

func TestInfoDefaults(t *testing.T) {
	r := newBare(t)
	r.b = r.newBridge(bridgeIndex, bridgeMAC, false)
	for typ, want := range map[uint16]uint64{
		1: 1500, 2: 200, 3: 2000, 4: 30000, 5: 0, 6: 32768, 7: 0, 9: 0, 11: 0x80, 22: 1, 23: 1, 26: 16, 27: 4096, 28: 2, 29: 2,
		30: 100, 31: 26000, 32: 25500, 33: 12500, 34: 1000, 35: 3124, 43: 2, 44: 1, 46: 0x1f << 32, 48: 0, 49: 0,
	} {
		if got := info(r.b.AppendInfo(nil), typ); got != want {
			t.Errorf("attribute %d: %d, want %d", typ, got, want)
		}
	}
}

func TestSetInfo(t *testing.T) {
	const (
		einval = syscall.EINVAL
		erange = syscall.ERANGE
		policy = "Attribute failed policy validation"
	)
	for _, c := range []struct {
		name  string
		set   []byte
		errno syscall.Errno
		msg   string
		typ   uint16 // read back
		want  uint64
	}{
		{"forward_delay", a32(1, 1), 0, "", 1, 0},
		{"forward_delay", a32(1, 4_000_000_000), 0, "", 1, 4_000_000_000},
		{"forward_delay with stp", append(a32(1, 1), a32(5, 1)...), 0, "", 1, 200},
		{"forward_delay with stp", append(a32(1, 9999), a32(5, 1)...), 0, "", 1, 3000},
		{"hello_time low", a32(2, 99), erange, "", 2, 200},
		{"hello_time high", a32(2, 1001), erange, "", 2, 200},
		{"hello_time", a32(2, 1000), 0, "", 2, 1000},
		{"max_age low", a32(3, 599), erange, "", 3, 2000},
		{"max_age high", a32(3, 4001), erange, "", 3, 2000},
		{"max_age", a32(3, 600), 0, "", 3, 600},
		{"ageing rounds", a32(4, 555), 0, "", 4, 554},
		{"stp 2", a32(5, 2), 0, "", 5, 1},
		{"priority", a16(6, 65535), 0, "", 6, 65535},
		{"vlan_filtering 0", a8(7, 0), syscall.EOPNOTSUPP, "", 7, 0},
		{"vlan_protocol", a16(8, 7), 0, "", 7, 0},
		{"default_pvid", a16(39, 4095), 0, "", 7, 0},
		{"group_fwd_mask", a16(9, 0xfff8), 0, "", 9, 0xfff8},
		{"group_fwd_mask 4", a16(9, 4), einval, "", 9, 0},
		{"group_addr", abytes(20, 1, 0x80, 0xc2, 0, 0, 4), 0, "", 9, 0},
		{"group_addr 3", abytes(20, 1, 0x80, 0xc2, 0, 0, 3), einval, "", 9, 0},
		{"group_addr 10", abytes(20, 1, 0x80, 0xc2, 0, 0, 0x10), einval, "", 9, 0},
		{"group_addr short", abytes(20, 1, 0x80, 0xc2, 0, 0), einval, "", 9, 0},
		{"group_addr long", abytes(20, 1, 0x80, 0xc2, 0, 0, 4, 5), erange, policy, 9, 0},
		{"mcast_router 3", a8(22, 3), einval, "", 22, 1},
		{"mcast_router 2", a8(22, 2), 0, "", 22, 2},
		{"hash_elasticity", a32(26, 3), 0, "", 26, 16},
		{"hash_max", a32(27, 17), 0, "", 27, 17},
		{"query_intvl low", a64(33, 1), 0, "", 33, 100},
		{"query_intvl high", a64(33, 1<<63), 0, "", 33, 8640000},
		{"startup_query_intvl", a64(35, 0), 0, "", 35, 100},
		{"querier_intvl", a64(32, 0), 0, "", 32, 0},
		{"igmp 1", a8(43, 1), einval, "", 43, 2},
		{"igmp 3", a8(43, 3), 0, "", 43, 3},
		{"mld 3", a8(44, 3), einval, "", 44, 1},
		{"nf", a8(37, 9), 0, "", 37, 1},
		{"boolopt", boolopt(9, 9), 0, "", 46, 0x1f<<32 | 9},
		{"boolopt unknown", boolopt(1, 1<<9|1<<7|1), einval, "bridge: Unknown boolean option 7", 46, 0x1f << 32},
		{"boolopt mst off", boolopt(0, 4), syscall.EOPNOTSUPP, "", 46, 0x1f << 32},
		{"boolopt partly", boolopt(3, 3), einval, "bridge: Cannot enable multicast vlan snooping with vlan filtering disabled", 46, 0x1f<<32 | 1},
		{"boolopt size", a32(46, 1), erange, "binary attribute size out of range", 46, 0x1f << 32},
		{"n_learned", a32(48, 1), einval, policy, 48, 0},
		{"max_learned", a32(49, 5), 0, "", 49, 5},
		{"short", a16(4, 5), erange, policy, 4, 30000},
		{"long", a64(4, 500), 0, "", 4, 500},
		{"newer", a32(50, 2), 0, "", 5, 0},
		{"read-only", a64(11, 2), 0, "", 6, 32768},
		{"partly", append(a32(1, 700), a32(2, 1)...), erange, "", 1, 700},
	} {
		r := newRig(t, 1)
		as := attrs(c.set)
		err := CheckInfo(as, false)
		if err == nil {
			err = r.b.SetInfo(as)
		}
		wantErr(t, c.name, err, c.errno, c.msg)
		if got := info(r.b.AppendInfo(nil), c.typ); got != c.want {
			t.Errorf("%s: attribute %d reads back %d, want %d", c.name, c.typ, got, c.want)
		}
	}
}

func TestBridgeFDBFlush(t *testing.T) {
	r := flushRig(t)
	_ = r.b.SetInfo(attrs(abytes(unix.IFLA_BR_FDB_FLUSH)))
	r.want("del 02:00:00:00:00:06 dev1 02", "del 02:00:00:00:00:04 dev2 02 flags 10", "del 02:00:00:00:00:02 dev2 02")
}

func TestPortInfo(t *testing.T) {
	const mab = "Bridge port must be locked and have learning enabled when MAB is enabled"
	for _, c := range []struct {
		name  string
		set   []byte
		errno syscall.Errno
		msg   string
		typ   uint16
		want  uint64
	}{
		{"priority", a16(2, 63), 0, "", 17, 63<<10 | 1},
		{"priority 64", a16(2, 64), syscall.ERANGE, "", 2, 32},
		{"cost", a32(3, 65535), 0, "", 3, 65535},
		{"cost 0", append(a32(3, 0), a8(8, 0)...), syscall.ERANGE, "", 8, 0},
		{"cost short", a16(3, 9), syscall.ERANGE, "", 3, 2},
		{"state wide", a32(1, 3), 0, "", 1, 3},
		{"state", a8(1, 5), syscall.EINVAL, "", 1, 3},
		{"mab alone", a8(40, 1), syscall.EINVAL, mab, 40, 0},
		{"mab and locked", append(a8(40, 1), a8(39, 1)...), 0, "", 40, 1},
		{"router", a8(25, 3), 0, "", 25, 3},
		{"router 4", a8(25, 4), syscall.EINVAL, "", 25, 1},
		{"mask 2", a16(31, 2), syscall.EINVAL, "", 31, 0},
		{"mask 5", a16(31, 5), 0, "", 31, 5},
		{"backup none", a32(34, 99), syscall.ENOENT, "", 34, 1<<64 - 1},
		{"backup self", a32(34, 1), syscall.EINVAL, "", 34, 1<<64 - 1},
		{"backup", a32(34, 2), 0, "", 34, 2},
		{"eht 0", a32(37, 0), syscall.EINVAL, "", 37, 512},
		{"eht", a32(37, 7), 0, "", 37, 7},
		{"n_groups", a32(41, 0), syscall.EINVAL, "", 41, 0},
		{"max_groups", a32(42, 7), 0, "", 42, 7},
		{"neigh_vlan_suppress 2", a8(43, 2), syscall.ERANGE, "", 43, 0},
		{"nhid", a32(44, 7), 0, "", 44, 7},
		{"newer", a8(45, 1), 0, "", 43, 0},
		{"unknown", a8(99, 1), 0, "", 43, 0},
		{"read-only", abytes(13), 0, "", 43, 0},
	} {
		r := newRig(t, 2)
		wantErr(t, c.name, r.port(1).SetInfo(attrs(c.set)), c.errno, c.msg)
		if got := info(r.port(1).AppendInfo(nil), c.typ); got != c.want {
			t.Errorf("%s: attribute %d reads back %d, want %d", c.name, c.typ, got, c.want)
		}
	}
}

func TestFlagAttributes(t *testing.T) {
	for _, f := range portFlags {
		if f.flag == portMAB {
			continue
		}
		r := newRig(t, 1)
		for _, v := range []uint8{0, 1} {
			set(t, r.port(1), a8(f.typ, v))
			if got := info(r.port(1).AppendInfo(nil), f.typ); got != uint64(v) {
				t.Errorf("attribute %d: %d, want %d", f.typ, got, v)
			}
		}
	}
}

func TestDesignatedFollowsBridge(t *testing.T) {
	r := newRig(t, 2)
	r.up(false)
	r.up(true)
	_ = r.port(1).SetSTPState(0) // keeps what it knew
	_ = r.b.SetInfo(attrs(a16(unix.IFLA_BR_PRIORITY, 0x1234)))
	id := func(p *Port) uint64 {
		as, _ := nlattr.Parse(p.AppendInfo(nil), 0)
		a, _ := as.Get(unix.IFLA_BRPORT_BRIDGE_ID)
		return binary.BigEndian.Uint64(a.Data)
	}
	if got := id(r.port(1)); got != 0x8000_0200_0000_00b0 {
		t.Errorf("disabled port %x", got)
	}
	if got := id(r.port(2)); got != 0x1234_0200_0000_00b0 {
		t.Errorf("port %x", got)
	}
}

func TestCostFollowsSpeed(t *testing.T) {
	for mbps, want := range map[int]uint32{0: 100, 10: 100, 100: 19, 1000: 5, 2500: 4, 5000: 3, 10000: 2, 25000: 1, 1<<32 - 1: 100} {
		if got := pathCost(mbps); got != want {
			t.Errorf("%d Mbit/s: cost %d, want %d", mbps, got, want)
		}
	}
}

// TestStrictPolicies: of the newer attributes the kernel takes no other length.
func TestStrictPolicies(t *testing.T) {
	for _, c := range []struct {
		typ   uint16
		data  []byte
		check func(nlattr.Attrs) error
		want  syscall.Errno
	}{
		{unix.IFLA_BRPORT_MCAST_EHT_HOSTS_LIMIT, nil, CheckPortInfo, syscall.ERANGE},
		{unix.IFLA_BRPORT_MCAST_EHT_HOSTS_CNT, nil, CheckPortInfo, syscall.EINVAL},
		{unix.IFLA_BRPORT_LOCKED, nil, CheckPortInfo, syscall.EINVAL},
		{unix.IFLA_BRPORT_BACKUP_NHID, []byte{1}, CheckPortInfo, syscall.EINVAL},
		{unix.IFLA_BR_FDB_MAX_LEARNED, make([]byte, 8), func(as nlattr.Attrs) error { return CheckInfo(as, false) }, syscall.EINVAL},
		{unix.IFLA_BR_AGEING_TIME, make([]byte, 2), func(as nlattr.Attrs) error { return CheckInfo(as, false) }, syscall.ERANGE},
	} {
		err := c.check(nlattr.Attrs{{Type: c.typ, Data: c.data, Off: 32}})
		if err == nil || nlattr.AsError(err).Errno != c.want {
			t.Errorf("attribute %d: %v, want %v", c.typ, err, c.want)
		}
	}
}
