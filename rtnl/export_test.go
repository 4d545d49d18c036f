package rtnl

// RewriteLink gives tests what clients are told for a kernel's link message.
func (ns *Namespace) RewriteLink(b []byte) []byte {
	ns.Lock()
	defer ns.Unlock()
	m, _, ok := split(b)
	if !ok {
		return nil
	}
	return ns.rewriteLink(&m)
}

// Traces tells what is left of devices and sessions.
func (ns *Namespace) Traces() (devices, ports int) {
	ns.Lock()
	defer ns.Unlock()
	return len(ns.devs), len(ns.portIDs)
}

// OutboxLimit is how many bytes of notifications may wait for a client.
const OutboxLimit = outboxLimit
