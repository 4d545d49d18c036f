package rtnl

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
)

// request bytes of a message with a body.
func requestBytes(typ, flags uint16, seq uint32, body ...byte) []byte {
	b := beginMessage(nil, typ, flags, seq, 0)
	b = append(b, body...)
	ne.PutUint32(b, uint32(len(b)))
	return b
}

func TestSplit(t *testing.T) {
	whole := requestBytes(unix.RTM_GETLINK, 5, 7, 1, 2, 3, 4)
	odd := requestBytes(unix.RTM_GETLINK, 5, 8, 1)
	lie := func(n uint32) []byte {
		b := bytes.Clone(whole)
		ne.PutUint32(b, n)
		return b
	}
	for _, c := range []struct {
		name string
		in   []byte
		ok   bool
		body []byte
		rest []byte
	}{
		{"nothing", nil, false, nil, nil},
		{"less than a header", whole[:15], false, nil, nil},
		{"one", whole, true, []byte{1, 2, 3, 4}, nil},
		{"a header alone", requestBytes(3, 5, 1), true, nil, nil},
		{"two", append(bytes.Clone(whole), odd...), true, []byte{1, 2, 3, 4}, odd},
		{"odd length, padded", append(append(bytes.Clone(odd), 0, 0, 0), whole...), true, []byte{1}, whole},
		{"odd length, no padding at the end", odd, true, []byte{1}, nil},
		{"odd length, half the padding", append(bytes.Clone(odd), 9), true, []byte{1}, nil},
		{"cut short", whole[:len(whole)-1], false, nil, nil},
		{"length 0", lie(0), false, nil, nil},
		{"length 15", lie(15), false, nil, nil},
		{"length beyond the end", lie(uint32(len(whole)) + 1), false, nil, nil},
		{"length -1", lie(^uint32(0)), false, nil, nil},
	} {
		m, rest, ok := split(c.in)
		if ok != c.ok {
			t.Errorf("%s: ok %v", c.name, ok)
			continue
		}
		if ok && (!bytes.Equal(m.body(), c.body) || !bytes.Equal(rest, c.rest)) {
			t.Errorf("%s: body %x, rest %x", c.name, m.body(), rest)
		}
		if cap(m.raw) != len(m.raw) {
			t.Errorf("%s: an append would write into the next message", c.name)
		}
	}
}

// TestAckForms compares with what a kernel (Linux 6.18) sent.
func TestAckForms(t *testing.T) {
	get := unhex("2000000012000500070000000000000000000000393000000000000000000000") // RTM_GETLINK of device 12345
	noDevice := nlattr.Errno(unix.ENODEV)
	short := unhex("110000001200050007000000000000000000") // an odd body
	short = short[:17]
	header := nlattr.Errf(unix.EINVAL, "Invalid header for get link")
	for _, c := range []struct {
		name        string
		request     []byte
		err         error
		ext, capped bool
		want        string
	}{
		{"success is capped", get, nil, false, false,
			"240000000200000107000000505050500000000020000000120005000700000000000000"},
		{"whatever was asked for", get, nil, true, true,
			"240000000200000107000000505050500000000020000000120005000700000000000000"},
		{"a failure has the whole request", get, noDevice, false, false,
			"34000000020000000700000050505050edffffff2000000012000500070000000000000000000000393000000000000000000000"},
		{"capped", get, noDevice, false, true,
			"24000000020000010700000050505050edffffff20000000120005000700000000000000"},
		{"no text, no TLVs", get, noDevice, true, true,
			"24000000020000010700000050505050edffffff20000000120005000700000000000000"},
		{"a plain errno", get, unix.ENODEV, true, true,
			"24000000020000010700000050505050edffffff20000000120005000700000000000000"},
		{"an odd request, with text", short, header, true, false,
			"48000000020000020700000050505050eaffffff110000001200050007000000000000000000000020000100496e76616c69642068656164657220666f7220676574206c696e6b00"},
		{"an odd request, without", requestBytes(123, 5, 7, 0), nlattr.Errno(unix.EOPNOTSUPP), false, false,
			"28000000020000000700000050505050a1ffffff110000007b000500070000000000000000000000"},
		{"text for those who want it", get, header, false, true,
			"24000000020000010700000050505050eaffffff20000000120005000700000000000000"},
	} {
		m, _, ok := split(c.request)
		if !ok {
			t.Fatal(c.name)
		}
		got := appendAck(nil, &m, 0x50505050, c.err, c.ext, c.capped)
		if !bytes.Equal(got, unhex(c.want)) {
			t.Errorf("%s:\ngot  %x\nwant %s", c.name, got, c.want)
		}
	}
}

// TestExtackOrder has every attribute at once, in the order of netlink_ack_tlv_fill.
func TestExtackOrder(t *testing.T) {
	m, _, _ := split(requestBytes(unix.RTM_GETLINK, 5, 7))
	e := &nlattr.Error{Errno: unix.EINVAL, Msg: "text", Offset: 32, MissType: 3, MissNest: 48}
	b := appendAck(nil, &m, 1, e, true, true)
	as, left := nlattr.Parse(b[headerLen+4+headerLen:], 0)
	var types []uint16
	for _, a := range as {
		types = append(types, a.Type)
	}
	if want := []uint16{1, 2, 5, 6}; left != 0 || !slices.Equal(types, want) {
		t.Errorf("attributes %v, want %v; %d bytes left", types, want, left)
	}
	back, _, _ := split(b)
	var got *nlattr.Error
	if err := parseAck(&back); !errors.As(err, &got) || got.Errno != e.Errno || got.Msg != e.Msg ||
		got.Offset != e.Offset || got.MissType != e.MissType || got.MissNest != e.MissNest {
		t.Errorf("parsed as %+v", got)
	}
}

func TestParseAckTakesAnyBytes(t *testing.T) {
	m, _, _ := split(requestBytes(unix.RTM_GETLINK, 5, 7, 1, 2, 3, 4, 5))
	whole := appendAck(nil, &m, 1, nlattr.Errf(unix.EINVAL, "text"), true, false)
	for n := headerLen; n <= len(whole); n++ {
		b := bytes.Clone(whole[:n])
		ne.PutUint32(b, uint32(n))
		cut, _, ok := split(b)
		if !ok {
			t.Fatal(n)
		}
		if err := parseAck(&cut); n >= headerLen+4 && !errors.Is(err, unix.EINVAL) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// A request's length that the acknowledgement repeats may lie.
	ne.PutUint32(whole[headerLen+4:], ^uint32(0))
	lying, _, _ := split(whole)
	if err := parseAck(&lying); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a lying length: %v", err)
	}
}

func TestEachMessage(t *testing.T) {
	a, b := requestBytes(16, 0, 1, 7), requestBytes(17, 0, 2)
	var got [][]byte
	EachMessage(append(append(append(bytes.Clone(a), 0, 0, 0), b...), 1, 2, 3), func(m []byte) { got = append(got, m) })
	if len(got) != 2 || !bytes.Equal(got[0], a) || !bytes.Equal(got[1], b) {
		t.Errorf("%x", got)
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}
