package vxlan

import (
	"iter"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/linkspan/linkspan/fdb"
)

// vniSet is the VNIs that an external device with a filter takes part in
// (struct vxlan_vni_group). The zero value is empty. Only the control side uses
// it, except for lookup.
type vniSet struct {
	list []*vniNode // ascending
	// table is for the frame path; nil until there is a VNI.
	table atomic.Pointer[fdb.Table[*vniNode]]
}

// vniNode is one VNI (struct vxlan_vni_node).
type vniNode struct {
	vni uint32
	// remote is the VNI's own remote. The zero or unspecified address stands for
	// the device's.
	remote netip.Addr
	stats  vniStats
}

// own tells whether the VNI has a remote of its own.
func (n *vniNode) own() bool { return n.remote.IsValid() && !n.remote.IsUnspecified() }

// vniStats are a VNI's counters (struct vxlan_vni_stats). A nil one counts
// nothing.
type vniStats struct {
	rxBytes, rxPackets, rxDrops, rxErrors atomic.Uint64
	txBytes, txPackets, txDrops, txErrors atomic.Uint64
}

func (s *vniSet) search(vni uint32) (int, bool) {
	return slices.BinarySearchFunc(s.list, vni, func(n *vniNode, v uint32) int {
		return int(int64(n.vni) - int64(v))
	})
}

func (s *vniSet) get(vni uint32) *vniNode {
	if i, ok := s.search(vni); ok {
		return s.list[i]
	}
	return nil
}

func (s *vniSet) has(vni uint32) bool { return s.get(vni) != nil }

func (s *vniSet) add(n *vniNode) {
	i, _ := s.search(n.vni)
	s.list = slices.Insert(s.list, i, n)
	t := s.table.Load()
	if t == nil {
		t = fdb.New[*vniNode](fdb.Options{})
		s.table.Store(t)
	}
	t.Insert(vniKey(n.vni), func(p **vniNode) { *p = n })
}

func (s *vniSet) remove(vni uint32) {
	if i, ok := s.search(vni); ok {
		s.list = slices.Delete(s.list, i, i+1)
		t := s.table.Load()
		t.Delete(t.Lookup(vniKey(vni)))
	}
}

// stats returns the counters of a VNI, nil if it is not in the set. Any
// goroutine may call it.
func (s *vniSet) stats(vni uint32) *vniStats {
	t := s.table.Load()
	if t == nil {
		return nil
	}
	if e := t.Lookup(vniKey(vni)); e != nil {
		return &e.V.stats
	}
	return nil
}

// all iterates over the VNIs, ascending.
func (s *vniSet) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, n := range s.list {
			if !yield(n.vni) {
				return
			}
		}
	}
}
