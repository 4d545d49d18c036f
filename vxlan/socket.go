package vxlan

import (
	"errors"

	"github.com/linkspan/linkspan/fdb"
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"golang.org/x/sys/unix"
)

// socketKey is what devices must agree on to share a socket
// (vxlan_find_sock).
type socketKey struct {
	port  uint16
	ipv6  bool
	flags recvFlags
}

// socket is a UDP socket that receives for devices (struct vxlan_sock).
type socket struct {
	key    socketKey
	users  int
	reader netdev.Reader
	vnis   *fdb.Table[listeners]
	groups map[membership]int // how many devices are in each
}

// listeners are the devices of one VNI on a socket. There are several only where
// link-local devices tell each other apart by their links.
type listeners struct{ list []*Device }

// openSockets opens or shares the sockets that d receives from
// (vxlan_sock_add). On error nothing stays open.
func (r *Registry) openSockets(d *Device) error {
	families := []bool{d.cfg.IPv6()}
	if d.cfg.CollectMetadata {
		families = []bool{true, false}
	}
	for _, v6 := range families {
		s, err := r.openSocket(&d.cfg, v6)
		if v6 && d.cfg.CollectMetadata && errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		if err != nil {
			r.closeSockets(d)
			return err
		}
		d.sockets = append(d.sockets, s)
	}
	return nil
}

func (r *Registry) openSocket(c *Config, v6 bool) (*socket, error) {
	k := socketKey{port: c.Port, ipv6: v6, flags: c.recvFlags()}
	if s := r.sockets[k]; s != nil {
		s.users++
		return s, nil
	}
	for o := range r.sockets {
		if o.port == k.port && o.ipv6 == k.ipv6 {
			return nil, nlattr.Errno(unix.EADDRINUSE)
		}
	}
	reader, err := r.env.Sockets.Listen(netdev.ListenConfig{Port: k.port, IPv6: v6, ZeroCsum6RX: c.ZeroCsum6RX})
	if err != nil {
		var errno unix.Errno
		if errors.As(err, &errno) {
			return nil, nlattr.Errno(errno)
		}
		return nil, err
	}
	s := &socket{key: k, users: 1, reader: reader, vnis: fdb.New[listeners](fdb.Options{}), groups: map[membership]int{}}
	r.sockets[k] = s
	r.env.Domain.Start(reader, s, r.threadEnded(s))
	return s, nil
}

// threadEnded returns what is called when a receive thread ends. Only an end
// that nobody asked for is worth a line.
func (r *Registry) threadEnded(s *socket) func(error) {
	return func(err error) {
		if r.env.Log != nil && !errors.Is(err, netdev.ErrClosed) {
			r.env.Log.Error("receiving stopped", "port", s.key.port, "ipv6", s.key.ipv6, "err", err)
		}
	}
}

// closeSockets gives d's sockets back (vxlan_sock_release). A thread may still
// be in its last batch afterwards.
func (r *Registry) closeSockets(d *Device) {
	for _, s := range d.sockets {
		s.users--
		if s.users == 0 {
			delete(r.sockets, s.key)
			s.reader.Close()
		}
	}
	d.sockets = nil
}

func vniKey(vni uint32) fdb.Key { return fdb.Key{Tag: vni} }

// listen makes d receive what comes for vni. Whoever reads an entry's list may
// keep it: a longer one is another entry.
func (s *socket) listen(vni uint32, d *Device) {
	list := []*Device{d}
	if e := s.vnis.Lookup(vniKey(vni)); e != nil {
		list = append(list, e.V.list...)
		s.vnis.Delete(e)
	}
	s.vnis.Insert(vniKey(vni), func(l *listeners) { l.list = list })
}

// ignore takes listen back.
func (s *socket) ignore(vni uint32, d *Device) {
	e := s.vnis.Lookup(vniKey(vni))
	if e == nil {
		return
	}
	var list []*Device
	for _, o := range e.V.list {
		if o != d {
			list = append(list, o)
		}
	}
	s.vnis.Delete(e)
	if len(list) > 0 {
		s.vnis.Insert(vniKey(vni), func(l *listeners) { l.list = list })
	}
}

// device returns who receives vni, nil if nobody (vxlan_vs_find_vni). ifindex is
// where the datagram came in.
func (s *socket) device(vni uint32, ifindex int32) *Device {
	if s.key.flags.metadata && !s.key.flags.vniFilter {
		vni = 0
	}
	e := s.vnis.Lookup(vniKey(vni))
	if e == nil {
		return nil
	}
	for _, d := range e.V.list {
		if p := d.path.Load(); !p.linkLocal || p.link == ifindex {
			return d
		}
	}
	return nil
}

// output is a way out that devices share.
type output struct {
	users int
	out   *netdev.Output
}

func (r *Registry) openOutput(c netdev.SendConfig) (*netdev.Output, error) {
	if o := r.outputs[c]; o != nil {
		o.users++
		return o.out, nil
	}
	out, err := r.env.Sockets.Output(c)
	if err != nil {
		return nil, err
	}
	r.outputs[c] = &output{users: 1, out: out}
	return out, nil
}

// closeOutput gives an output back. It must be unpublished; no lock that the
// frame path takes may be held.
func (r *Registry) closeOutput(c netdev.SendConfig) {
	o := r.outputs[c]
	if o.users--; o.users == 0 {
		delete(r.outputs, c)
		o.out.Release()
	}
}

// sendConfigs returns what d's outputs must be like: without and with DF, as far
// as it uses them.
func (c *Config) sendConfigs() (plain, df netdev.SendConfig, usePlain, useDF bool) {
	plain = netdev.SendConfig{IPv6: c.IPv6(), NoCsum: !c.UDPCsum}
	if c.IPv6() {
		plain.NoCsum = c.ZeroCsum6TX
	}
	// An empty range means the system's.
	if c.PortLow < c.PortHigh {
		plain.Low, plain.High = c.PortLow, c.PortHigh
	}
	df = plain
	df.DF = true
	if c.IPv6() {
		return plain, df, true, false
	}
	return plain, df, c.DF != DFSet, c.DF != DFUnset
}
