package bridge

import "github.com/linkspan/linkspan/uapi"

// addLocal adds the LOCAL row of an own address of the bridge, p nil, or of a port
// (fdb_add_local). The first owner of an address keeps it: a LOCAL row stays as it
// is, while one that was learned makes way. fdbMu is held.
func (b *Bridge) addLocal(p *Port, mac uapi.MAC) {
	if !mac.ValidUnicast() {
		return
	}
	if e := b.fdb.Lookup(key(mac, 0)); e != nil {
		if e.V.has(fdbLocal) {
			return
		}
		name := b.link.Name
		if p != nil {
			name = p.link.Name
		}
		b.env.Log.Warn("a device has the address of a received frame", "bridge", b.link.Name, "dev", name, "mac", mac.String())
		b.deleteRow(e)
	}
	b.notifyRow(newNeigh, b.createRow(p, mac, 0, fdbLocal|fdbStatic))
}

// deleteLocal removes a LOCAL row of p, nil being the bridge, or gives it to
// another owner of the address without telling anyone (fdb_delete_local). fdbMu is
// held.
func (b *Bridge) deleteLocal(p *Port, e *entry) {
	mac := uapi.MAC(e.Key().MAC)
	for _, q := range b.ports {
		if q != p && q.mac() == mac {
			e.V.dst.Store(q)
			e.V.change(0, fdbUser)
			return
		}
	}
	if p != nil && b.link.MAC == mac {
		e.V.dst.Store(nil)
		e.V.change(0, fdbUser)
		return
	}
	b.deleteRow(e)
}

// changeOwnAddress moves the bridge's LOCAL row from its present MAC to another
// (br_fdb_change_mac_address).
func (b *Bridge) changeOwnAddress(mac uapi.MAC) {
	b.fdbMu.Lock()
	defer b.fdbMu.Unlock()
	e := b.fdb.Lookup(key(b.link.MAC, 0))
	if e != nil && e.V.dst.Load() == nil && e.V.has(fdbLocal) && !e.V.has(fdbUser) {
		b.deleteLocal(nil, e)
	}
	b.addLocal(nil, mac)
}

// changePortAddress moves a port's LOCAL row to the MAC that its device has got
// (br_fdb_changeaddr). A row that a user made or replaced stays.
func (b *Bridge) changePortAddress(p *Port, mac uapi.MAC) {
	b.fdbMu.Lock()
	defer b.fdbMu.Unlock()
	for e := range b.fdb.All() {
		if e.V.dst.Load() == p && e.V.has(fdbLocal) && !e.V.has(fdbUser) {
			b.deleteLocal(p, e)
			break // a port without VLANs has no other
		}
	}
	b.addLocal(p, mac)
}

// deleteByPort removes a port's rows (br_fdb_delete_by_port): all of them, or
// those that the port cannot vouch for out of service.
func (b *Bridge) deleteByPort(p *Port, all bool) {
	b.eachRow(func(e *entry) {
		if e.V.dst.Load() != p || !all && e.V.has(fdbStatic|fdbExtLearned) {
			return
		}
		if e.V.has(fdbLocal) {
			b.deleteLocal(p, e)
		} else {
			b.deleteRow(e)
		}
	})
}
