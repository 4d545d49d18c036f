package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/bridge"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"github.com/linkspan/linkspan/vxlan"
)

// linkRequest is a RTM_NEWLINK or RTM_SETLINK taken apart.
type linkRequest struct {
	*request
	info  uapi.Ifinfomsg
	attrs nlattr.Attrs

	kind               string
	data, slave        nlattr.Attr
	hasData, hasSlave  bool
	target             *message // the kernel's view of the device, nil if absent
	master             int
	hasMaster, hasName bool
}

// linkPolicy is the part of ifla_policy that concerns what we create.
var linkPolicy = nlattr.Policy{
	unix.IFLA_IFNAME:    {Kind: nlattr.String, Len: unix.IFNAMSIZ - 1},
	unix.IFLA_ADDRESS:   {Kind: nlattr.Binary, Len: 32},
	unix.IFLA_BROADCAST: {Kind: nlattr.Binary, Len: 32},
	unix.IFLA_MTU:       {Kind: nlattr.U32},
	unix.IFLA_LINK:      {Kind: nlattr.U32},
	unix.IFLA_MASTER:    {Kind: nlattr.U32},
	unix.IFLA_TXQLEN:    {Kind: nlattr.U32},
	unix.IFLA_LINKINFO:  {Kind: nlattr.Nested},
	unix.IFLA_IFALIAS:   {Kind: nlattr.String, Len: 256},
	unix.IFLA_GROUP:     {Kind: nlattr.U32},
}

// linkInfoPolicy is ifla_info_policy.
var linkInfoPolicy = nlattr.Policy{
	unix.IFLA_INFO_KIND:       {Kind: nlattr.String},
	unix.IFLA_INFO_DATA:       {Kind: nlattr.Nested},
	unix.IFLA_INFO_SLAVE_KIND: {Kind: nlattr.String},
	unix.IFLA_INFO_SLAVE_DATA: {Kind: nlattr.Nested},
}

// newLink handles RTM_NEWLINK and RTM_SETLINK (rtnl_newlink, rtnl_setlink).
func (r *request) newLink() (bool, error) {
	l, err := r.parseLink()
	if err != nil || l == nil {
		if err == nil {
			return r.pass()
		}
		return false, err
	}
	switch {
	case l.target != nil:
		return l.change()
	case r.typ == unix.RTM_NEWLINK && r.flags&uapi.NLMCreate != 0 && (l.kind == "bridge" || l.kind == "vxlan"):
		return false, l.create()
	case l.hasMaster && r.ns.bridgeAt(l.master) != nil && r.typ == unix.RTM_NEWLINK && r.flags&uapi.NLMCreate != 0:
		return false, l.createForeignPort()
	}
	return r.pass()
}

// parseLink takes the request apart; nil means that the kernel is to refuse it.
func (r *request) parseLink() (*linkRequest, error) {
	if len(r.body()) < uapi.IfinfomsgLen {
		return nil, nil
	}
	l := &linkRequest{request: r, info: uapi.ParseIfinfomsg(r.body())}
	l.attrs = r.parse(uapi.IfinfomsgLen)
	if linkPolicy.Validate(l.attrs, 0, nlattr.Liberal) != nil || l.info.Index < 0 {
		// The kernel's own parse fails in the same way, whatever the device.
		return nil, nil
	}
	if a, ok := l.attrs.Get(unix.IFLA_LINKINFO); ok {
		in := a.Nest()
		if linkInfoPolicy.Validate(in, 0, nlattr.Liberal) != nil {
			return nil, nil
		}
		if k, ok := in.Get(unix.IFLA_INFO_KIND); ok {
			l.kind = k.Text()
		}
		l.data, l.hasData = in.Get(unix.IFLA_INFO_DATA)
		l.slave, l.hasSlave = in.Get(unix.IFLA_INFO_SLAVE_DATA)
	}
	if a, ok := l.attrs.Get(unix.IFLA_MASTER); ok {
		l.master, l.hasMaster = int(a.U32()), true
	}
	name, hasName := l.attrs.Get(unix.IFLA_IFNAME)
	l.hasName = hasName
	alt, hasAlt := l.attrs.Get(unix.IFLA_ALT_IFNAME)
	switch {
	case l.info.Index > 0:
		l.target = r.ns.link(int(l.info.Index), "")
	case l.hasName:
		if name.Text() != "" {
			l.target = r.ns.link(0, name.Text())
		}
	case hasAlt:
		l.target = r.ns.link(0, alt.Text())
	}
	return l, nil
}

// bridgeAt returns the emulated bridge with that index, nil if there is none.
func (ns *Namespace) bridgeAt(ifindex int) *device {
	if d := ns.devs[ifindex]; d != nil && d.br != nil {
		return d
	}
	return nil
}

// createForeignPort makes a device of a kernel's kind with an emulated bridge as
// its master: the kernel makes it without, then it is enslaved.
func (l *linkRequest) createForeignPort() error {
	raw := blank(l.raw, unix.IFLA_MASTER)
	if err := l.try(raw); err != nil {
		return err
	}
	l.ns.drain()
	name, _ := l.attrs.Get(unix.IFLA_IFNAME)
	m := l.ns.link(0, name.Text())
	if m == nil {
		return nlattr.Errno(unix.ENODEV)
	}
	d := l.ns.deviceFor(m)
	if err := l.ns.setMaster(d, l.master); err != nil {
		b := beginMessage(nil, unix.RTM_DELLINK, unix.NLM_F_REQUEST, l.seq, 0)
		b = endMessage(uapi.Ifinfomsg{Index: int32(d.ifindex)}.Append(b), 0)
		_ = l.try(b)
		return err
	}
	return nil
}

// blank returns a copy of a link message in which the attributes of those types
// have a type that no kernel knows, so that all offsets stay what they were.
func blank(raw []byte, types ...uint16) []byte {
	raw = append([]byte(nil), raw...)
	m := message{raw: raw}
	as, _ := m.attrs(uapi.IfinfomsgLen)
	for _, a := range as {
		for _, t := range types {
			if a.Type == t {
				ne.PutUint16(raw[a.Off+2:], nlattr.TypeMask)
			}
		}
	}
	return raw
}

// create makes an emulated device (rtnl_newlink_create with br_dev_newlink or
// vxlan_newlink).
func (l *linkRequest) create() error {
	if l.attrs.Has(unix.IFLA_NET_NS_PID) || l.attrs.Has(unix.IFLA_NET_NS_FD) || l.attrs.Has(unix.IFLA_TARGET_NETNSID) {
		return nlattr.Errf(unix.EOPNOTSUPP, "linkspan: devices are made in the caller's network namespace only")
	}
	if l.kind == "bridge" {
		return l.createBridge()
	}
	return l.createVXLAN()
}

func (l *linkRequest) createBridge() error {
	var data nlattr.Attrs
	if l.hasData {
		data = l.data.Nest()
		if err := bridge.CheckInfo(data, true); err != nil {
			return err
		}
	}
	mac, hasMAC, err := l.address("", "")
	if err != nil {
		return err
	}
	mtu, err := l.mtu()
	if err != nil {
		return err
	}
	d, err := l.openTAP("bridge%d", mac, hasMAC, mtu)
	if err != nil {
		return err
	}
	ns := l.ns
	d.host = d.tap.Output(ns.domain)
	d.br = bridge.New(ns.bridgeEnv(), d.state, tapEgress(d.host), hasMAC)
	if err := d.br.SetInfo(data); err != nil {
		ns.discard(d)
		return err
	}
	ns.start(d)
	return l.finishCreate(d)
}

func (l *linkRequest) createVXLAN() error {
	cfg, err := vxlan.ParseConfig(l.data.Nest(), l.hasData, l.attrs, nil)
	if err != nil {
		return err
	}
	ns := l.ns
	if err := ns.vxlans.Check(cfg); err != nil {
		return err
	}
	mac, hasMAC, err := l.address("Provided link layer address is not Ethernet", "Provided Ethernet address is not unicast")
	if err != nil {
		return err
	}
	d, err := l.openTAP("vxlan%d", mac, hasMAC, ns.vxlans.InitialMTU(cfg))
	if err != nil {
		return err
	}
	d.host = d.tap.Output(ns.domain)
	if d.vx, err = ns.vxlans.New(d.state, cfg, tapEgress(d.host)); err != nil {
		ns.discard(d)
		return err
	}
	ns.start(d)
	if cfg.Link != 0 {
		d.tsoSize, d.tsoSegs = ns.tsoOf(int(cfg.Link))
		ns.emitForeign(int(cfg.Link))
	}
	d.muted = false
	ns.emitLink(d, ^uint32(0), 0)
	if err := d.vx.Announce(); err != nil {
		ns.remove(d)
		return err
	}
	return l.finishCreate(d)
}

// openTAP makes the TAP of a new device and gives it the request's address, MTU
// and other plain attributes. The kernel's events about it are dropped.
func (l *linkRequest) openTAP(pattern string, mac uapi.MAC, hasMAC bool, mtu int) (*device, error) {
	ns := l.ns
	name := pattern
	if l.hasName {
		a, _ := l.attrs.Get(unix.IFLA_IFNAME)
		name = a.Text()
		if !validName(name) {
			return nil, nlattr.Errno(unix.EINVAL)
		}
	}
	ns.drain()
	tap, err := ns.io.OpenTAP(name, int(l.info.Index))
	if err != nil {
		ns.log.Warn("cannot make the device", "dev", name, "err", err)
		return nil, userError(err)
	}
	d := &device{ifindex: tap.Ifindex(), tap: tap, muted: true, carrier: true, tapCarrier: true, queueLen: defaultQueueLen}
	ns.devs[d.ifindex] = d
	if err := l.configureTAP(d, mac, hasMAC, mtu); err != nil {
		ns.discard(d)
		return nil, err
	}
	ns.pull(d.ifindex)
	// What else the kernel said of the TAP (netconf) comes before all that we say.
	ns.drain()
	ns.refresh(d)
	d.tapMAC = d.state.MAC
	d.applyBigMTU(mtu)
	return d, nil
}

// configureTAP sets what the kernel would have set before it registered the
// device.
func (l *linkRequest) configureTAP(d *device, mac uapi.MAC, hasMAC bool, mtu int) error {
	b := beginMessage(nil, unix.RTM_SETLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 1, 0)
	b = uapi.Ifinfomsg{Index: int32(d.ifindex)}.Append(b)
	empty := len(b)
	if hasMAC {
		raw := mac.Bytes()
		b = nlattr.Append(b, unix.IFLA_ADDRESS, raw[:])
	}
	if mtu != 0 {
		b = nlattr.AppendU32(b, unix.IFLA_MTU, uint32(min(mtu, tapMaxMTU)))
	}
	for _, a := range l.attrs {
		switch a.Type {
		case unix.IFLA_TXQLEN:
			d.queueLen = a.U32()
		case unix.IFLA_GROUP, unix.IFLA_BROADCAST, unix.IFLA_LINKMODE, unix.IFLA_GSO_MAX_SIZE, unix.IFLA_GSO_MAX_SEGS,
			unix.IFLA_GRO_MAX_SIZE, unix.IFLA_GSO_IPV4_MAX_SIZE, unix.IFLA_GRO_IPV4_MAX_SIZE:
			b = nlattr.Append(b, a.Type, a.Data)
		}
	}
	if len(b) == empty {
		return nil
	}
	return roundTrip(l.ns.ctl, endMessage(b, 0), nil)
}

// defaultQueueLen is DEFAULT_TX_QUEUE_LEN.
const defaultQueueLen = 1000

// tapMaxMTU is what a TAP takes at most; a bridge or a tunnel takes maxMTU.
const tapMaxMTU = 65521

// userError turns a failure to open a device into what the client is told: the
// kernel's errno with the sentence as its text, but for those that the kernel
// reports without one.
func userError(err error) error {
	e := nlattr.AsError(err)
	switch e.Errno {
	case unix.EEXIST, unix.EBUSY:
		return nlattr.Errno(unix.EEXIST)
	case unix.ENODEV, unix.ENOENT, unix.EPERM, unix.EACCES, unix.EOPNOTSUPP, unix.ENOTTY:
		return nlattr.Errf(e.Errno, "linkspan: %s", err.Error())
	}
	return e
}

// validName is dev_valid_name.
func validName(s string) bool {
	if s == "" || len(s) >= unix.IFNAMSIZ || s == "." || s == ".." {
		return false
	}
	for _, c := range []byte(s) {
		if c == '/' || c == ':' || c == ' ' || c >= '\t' && c <= '\r' {
			return false
		}
	}
	return true
}

// address reads IFLA_ADDRESS with the checks of br_validate or vxlan_validate.
func (l *linkRequest) address(badLen, badAddr string) (mac uapi.MAC, has bool, err error) {
	a, ok := l.attrs.Get(unix.IFLA_ADDRESS)
	if !ok {
		return 0, false, nil
	}
	if len(a.Data) != 6 {
		return 0, false, &nlattr.Error{Errno: unix.EINVAL, Msg: badLen, Offset: offsetIf(badLen, a)}
	}
	mac = uapi.MACFrom(a.Data)
	if !mac.ValidUnicast() {
		return 0, false, &nlattr.Error{Errno: unix.EADDRNOTAVAIL, Msg: badAddr, Offset: offsetIf(badAddr, a)}
	}
	return mac, true, nil
}

func offsetIf(msg string, a nlattr.Attr) int {
	if msg == "" {
		return 0
	}
	return a.Off
}

// mtu reads IFLA_MTU with the checks of dev_validate_mtu; 0 is absent.
func (l *linkRequest) mtu() (int, error) {
	a, ok := l.attrs.Get(unix.IFLA_MTU)
	if !ok {
		return 0, nil
	}
	return int(a.U32()), checkMTU(a.U32())
}

func checkMTU(v uint32) error {
	switch {
	case int32(v) < 0 || v < 68:
		return nlattr.Errf(unix.EINVAL, "mtu less than device minimum")
	case v > maxMTU:
		return nlattr.Errf(unix.EINVAL, "mtu greater than device maximum")
	}
	return nil
}

// finishCreate announces a new device, takes it up if asked (rtnl_configure_link)
// and gives it its master.
func (l *linkRequest) finishCreate(d *device) error {
	ns := l.ns
	announced := !d.muted
	if l.info.Flags != 0 || l.info.Change != 0 {
		if err := l.setFlags(d, announced); err != nil {
			ns.remove(d)
			return err
		}
	}
	if !announced {
		d.muted = false
		l.announce(d)
	}
	if l.hasMaster && l.master != 0 {
		if err := ns.setMaster(d, l.master); err != nil {
			ns.remove(d)
			return err
		}
	}
	return nil
}

// announce emits the RTM_NEWLINK of a new device in the name of the request that made
// it (rtnl_configure_link).
func (l *linkRequest) announce(d *device) {
	m := l.ns.link(d.ifindex, "")
	if m == nil {
		return
	}
	b := append([]byte(nil), l.ns.rewriteLink(m)...)
	ne.PutUint16(b[6:], 0)
	ne.PutUint32(b[headerLen+12:], ^uint32(0))
	l.notify(unix.RTNLGRP_LINK, b)
}

// setFlags applies ifi_flags to a new device. Unless it was announced already,
// the announcement that follows tells the clients.
func (l *linkRequest) setFlags(d *device, announced bool) error {
	ns := l.ns
	up := l.info.Flags&unix.IFF_UP != 0
	if up && d.vx != nil {
		if err := d.vx.Up(); err != nil {
			return err
		}
	}
	if up {
		ns.snoopers(d, true)
	}
	b := beginMessage(nil, unix.RTM_SETLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 1, 0)
	b = endMessage(uapi.Ifinfomsg{Index: int32(d.ifindex), Flags: l.info.Flags, Change: l.info.Change}.Append(b), 0)
	ns.drain()
	if err := roundTrip(ns.ctl, b, nil); err != nil {
		return err
	}
	if announced {
		ns.drain()
		return nil
	}
	ns.pull(d.ifindex)
	ns.refresh(d)
	if d.br != nil {
		d.br.LinkChanged(d.state)
	}
	if d.vx != nil {
		d.vx.LinkChanged(d.state)
	}
	return nil
}
