package vxlan

import (
	"time"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// learn notes that src is behind the endpoint that a datagram came from, and
// reports whether the frame may go on (vxlan_snoop).
func (d *Device) learn(now time.Duration, from *netdev.UDPMeta, src uapi.MAC, vni uint32) bool {
	if !src.ValidUnicast() {
		return false
	}
	var ifindex uint32
	if linkLocal(from.Src) {
		ifindex = uint32(from.Ifindex)
	}
	e := d.find(src, vni)
	if e == nil {
		d.meet(from, src, vni, ifindex)
		return true
	}
	touch(&e.V.updated, now)
	to := e.V.to.Load()
	if to.group != nil {
		return false
	}
	if r := &to.list[0]; r.ip == from.Src && r.ifindex == ifindex {
		return true
	}
	return d.migrate(now, e, from)
}

// meet learns an address that is not in the table. Where that is not possible
// the frame goes on all the same.
func (d *Device) meet(from *netdev.UDPMeta, src uapi.MAC, vni, ifindex uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A device that goes down has flushed its table: nothing may come after.
	if !d.running {
		return
	}
	_ = d.update(request{
		mac: src, srcVNI: vni, nl: uapi.NLMExcl | uapi.NLMCreate, state: uapi.NUDReachable, flags: uapi.NTFSelf,
		id: identity{ip: from.Src, port: d.fixed.port, vni: d.fixed.vni, ifindex: ifindex},
	})
}

// migrate makes an entry lead to where its address was seen last, unless a user
// fixed it. The entry keeps its port, VNI and interface.
func (d *Device) migrate(now time.Duration, e *entry, from *netdev.UDPMeta) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	to := e.V.to.Load()
	if to.group != nil || e.V.state()&(uapi.NUDPermanent|uapi.NUDNoARP) != 0 {
		return false
	}
	if !e.Linked() {
		return true
	}
	id := to.list[0].identity
	if d.env.Log != nil && d.logs.allow(now) {
		d.env.Log.Info("address migrated", "dev", d.home.Load().ifindex, "mac", uapi.MAC(e.Key().MAC), "from", id.ip, "to", from.Src)
	}
	id.ip = from.Src
	to = to.replacing(0, d.resolve(id))
	e.V.to.Store(to)
	d.announce(unix.RTM_NEWNEIGH, e, &to.list[0])
	return true
}
