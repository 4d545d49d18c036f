package rtnl

import (
	"golang.org/x/sys/unix"
)

// portMsgLen is the size of struct br_port_msg (uapi/linux/if_bridge.h).
const portMsgLen = 8

// mdbBridge returns the emulated bridge that a RTM_*MDB is about, nil if it is
// the kernel's affair.
func (r *request) mdbBridge() *device {
	if len(r.body()) < portMsgLen {
		return nil
	}
	return r.ns.bridgeAt(int(int32(ne.Uint32(r.body()[4:]))))
}

// mdbChange handles RTM_NEWMDB and RTM_DELMDB (rtnl_mdb_add, rtnl_mdb_del).
func (r *request) mdbChange() (bool, error) {
	d := r.mdbBridge()
	if d == nil {
		return r.pass()
	}
	as := r.parse(portMsgLen)
	return false, d.br.MDBRequest(r.typ, r.flags, as)
}

// mdbGet handles a RTM_GETMDB that is not a dump (rtnl_mdb_get).
func (r *request) mdbGet() (bool, error) {
	d := r.mdbBridge()
	if d == nil {
		return r.pass()
	}
	as, _ := r.attrs(portMsgLen)
	body, err := d.br.MDBGet(as)
	if err != nil {
		return false, err
	}
	r.replyMessage(unix.RTM_NEWMDB, 0, body)
	return false, nil
}

// mdbDump handles a RTM_GETMDB dump (rtnl_mdb_dump): a row a bridge, of message
// type RTM_GETMDB.
func (r *request) mdbDump() (bool, error) {
	return r.merge(nil, func(d *dumper) {
		for _, dev := range r.ns.byIndex() {
			if dev.br != nil {
				d.row(unix.RTM_GETMDB, dev.br.MDBDump())
			}
		}
	})
}
