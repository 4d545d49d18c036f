package vxlan

import (
	"log/slog"
	"net/netip"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
)

// Env is what devices need of the namespace that carries their datagrams.
type Env struct {
	// Clock tells the time for ageing.
	Clock netdev.Clock
	// Notify takes RTNLGRP_NEIGH and RTNLGRP_TUNNEL messages of devices that
	// live in this namespace.
	Notify notify.Publisher
	// Domain runs the receive threads.
	Domain *netdev.Domain
	// Sockets opens UDP sockets in this namespace.
	Sockets SocketOpener
	// Lower looks up a link that a tunnel is bound to. nil: there are none.
	Lower func(ifindex int) (Lower, bool)
	// Hooks is told what a device changes of itself. nil: nobody is.
	Hooks Hooks
	// Nexthops finds nexthops of this namespace. nil: there are none.
	Nexthops Resolver
	// Neighbours answers for ARP and ND proxying and for route short circuit.
	// nil: no neighbour is known. Called on the frame path.
	Neighbours Neighbours
	// Log takes what the kernel writes to its log. nil: nothing is written.
	Log *slog.Logger
}

// Hooks is how a device changes what others hold of it. Called with the RTNL
// lock held, from within the control call that causes it.
type Hooks interface {
	// CheckLower refuses, with EBUSY, a link that is the device itself or above
	// it (netdev_adjacent_change_prepare).
	CheckLower(d *Device, ifindex int) error
	// SetMTU lowers the MTU of the device itself; no notification of its own
	// (a changed link's NEWLINK follows).
	SetMTU(d *Device, mtu int)
}

// SocketOpener opens the two sides of a tunnel endpoint.
type SocketOpener interface {
	// Listen opens the wildcard UDP socket of a port. Its error wraps
	// EADDRINUSE if the port is taken, EAFNOSUPPORT if there is no such family.
	Listen(c netdev.ListenConfig) (netdev.Reader, error)
	// Output opens the sending side. Its Writers are netdev.UDPWriters.
	Output(c netdev.SendConfig) (*netdev.Output, error)
}

// Lower is what a tunnel must know of the link below it.
type Lower struct {
	// MTU is in bytes.
	MTU int
	// NoIPv6 is the disable_ipv6 sysctl of the link.
	NoIPv6 bool
}

// Nexthop is a nexthop object (net/nexthop.h).
type Nexthop struct {
	ID uint32
	// FDB tells that it was created with NHA_FDB, Group that it is a group,
	// IPv4 that it or its members are IPv4.
	FDB, Group, IPv4 bool
	// Members are the gateways of a group.
	Members []Member
}

// Member is one gateway of a nexthop group; Weight counts from 1.
type Member struct {
	IP     netip.Addr
	Weight int
}

// Resolver finds nexthop objects.
type Resolver interface {
	Nexthop(id uint32) (Nexthop, bool)
}

// Neighbour is an entry of a device's ARP or ND table.
type Neighbour struct {
	MAC uapi.MAC
	// Connected is NUD_CONNECTED: permanent, noarp or reachable.
	Connected bool
}

// Neighbours is the ARP and ND table of the host. Safe for concurrent use.
type Neighbours interface {
	Neighbour(ifindex int, ip netip.Addr) (Neighbour, bool)
}
