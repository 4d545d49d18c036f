package kernel

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/rtnl"
)

// IO implements rtnl.IO over TAPs, packet sockets and UDP sockets.
type IO struct {
	*netdev.Sockets
	ns *netdev.NS
}

var _ rtnl.IO = (*IO)(nil)

// NewIO makes the frame I/O of a namespace.
func NewIO(ns *netdev.NS, s *netdev.Sockets) *IO { return &IO{Sockets: s, ns: ns} }

// OpenTAP implements rtnl.IO.
func (o *IO) OpenTAP(name string, ifindex int) (rtnl.TAP, error) {
	t, err := netdev.OpenTAP(netdev.TAPConfig{Name: name, Ifindex: ifindex, NS: o.ns})
	if err != nil {
		return nil, err
	}
	return &tap{TAP: t, ns: o.ns}, nil
}

// port is a packet port with the program that keeps its frames from the host.
type port struct {
	*netdev.PacketPort
	ns      *netdev.NS
	ifindex int
	seized  io.Closer
}

// OpenPort implements rtnl.IO.
func (o *IO) OpenPort(ifindex int) (rtnl.Port, error) {
	p, err := netdev.OpenPacketPort(netdev.PacketConfig{Ifindex: ifindex, NS: o.ns})
	if err != nil {
		return nil, err
	}
	return &port{PacketPort: p, ns: o.ns, ifindex: ifindex}, nil
}

// Seize implements rtnl.Port.
func (p *port) Seize() error {
	c, err := netdev.AttachIngress(p.ifindex, p.ns)
	if err != nil {
		return err
	}
	p.seized = c
	return nil
}

// Close implements rtnl.Port: the host gets its frames back once the bridge no
// longer does.
func (p *port) Close() error {
	err := p.PacketPort.Close()
	if p.seized != nil {
		err = errors.Join(err, p.seized.Close())
	}
	return err
}

// ethtool commands and the size of struct ethtool_cmd (uapi/linux/ethtool.h).
const ethtoolGSet = 1

type ethtoolCmd struct {
	cmd, supported, advertising                           uint32
	speed                                                 uint16
	duplex, port, phyAddr, transceiver, autoneg, mdioSupp uint8
	maxTxPkt, maxRxPkt                                    uint32
	speedHi                                               uint16
	ethTPMDIX, ethTPMDIXCtrl                              uint8
	lpAdvertising                                         uint32
	reserved                                              [2]uint32
}

// ifreqData is struct ifreq with ifr_data.
type ifreqData struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// Speed implements rtnl.IO by ETHTOOL_GSET, as br_port's path cost is told.
func (o *IO) Speed(name string) int {
	speed := 0
	_ = o.ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socket: %w", err)
		}
		defer unix.Close(fd)
		cmd := ethtoolCmd{cmd: ethtoolGSet}
		req := ifreqData{data: unsafe.Pointer(&cmd)}
		copy(req.name[:unix.IFNAMSIZ-1], name)
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req))); e != 0 {
			return e
		}
		if s := uint32(cmd.speed) | uint32(cmd.speedHi)<<16; s != ^uint32(0) && s != 0xffff {
			speed = int(s)
		}
		return nil
	})
	return speed
}
