package netdev

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// nftOwner is NFT_TABLE_F_OWNER (uapi/linux/netfilter/nf_tables.h): the table
// belongs to the socket that made it and goes with it.
const nftOwner = 2

// nfIngress is a table of netfilter's ingress hook for one device.
type nfIngress struct {
	c     *nftables.Conn
	table *nftables.Table
}

// Close implements io.Closer. The table would go with the socket, but later.
func (n nfIngress) Close() error {
	n.c.DelTable(n.table)
	return errors.Join(n.c.Flush(), n.c.CloseLasting())
}

// attachNetfilter is AttachIngress for kernels without tcx and for users who may
// not load programs, in user namespaces for example: a chain of netfilter's
// ingress hook that drops what the tcx program would. Packet sockets come before
// it too.
func attachNetfilter(ifindex int, name string, ns *NS) (io.Closer, error) {
	opts := []nftables.ConnOption{nftables.AsLasting()}
	if ns != nil {
		opts = append(opts, nftables.WithNetNSFd(ns.FD()))
	}
	c, err := nftables.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("cannot open netfilter: %w", err)
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyNetdev, Name: fmt.Sprintf("linkspan-%d", ifindex), Flags: nftOwner})
	drop := nftables.ChainPolicyDrop
	first := nftables.ChainPriority(math.MinInt32)
	chain := c.AddChain(&nftables.Chain{
		Name: "ingress", Table: table, Device: name, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookIngress, Priority: &first, Policy: &drop,
	})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		// The destination, less the last four bits, is 01:80:c2:00:00:00.
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 6,
			Mask: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xf0}, Xor: make([]byte, 6)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0x01, 0x80, 0xc2, 0, 0, 0}},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}})
	if err := c.Flush(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make a netfilter ingress chain on %s: %w", name, err), c.CloseLasting())
	}
	return nfIngress{c, table}, nil
}
