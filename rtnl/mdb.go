package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/bridge"
	"github.com/linkspan/linkspan/uapi"
)

// portMsgLen is the size of struct br_port_msg (uapi/linux/if_bridge.h).
const portMsgLen = 8

// mdbDevice returns the emulated device that a RTM_*MDB is about, nil if it is
// the kernel's affair.
func (r *request) mdbDevice() *device {
	if len(r.body()) < portMsgLen {
		return nil
	}
	if d := r.ns.devs[int(int32(ne.Uint32(r.body()[4:])))]; d != nil && d.emulated() {
		return d
	}
	return nil
}

// mdbChange handles RTM_NEWMDB and RTM_DELMDB (rtnl_mdb_add, rtnl_mdb_del).
func (r *request) mdbChange() (bool, error) {
	d := r.mdbDevice()
	if d == nil {
		return r.pass()
	}
	as := r.parse(portMsgLen)
	if d.br != nil {
		return false, d.br.MDBRequest(r.typ, r.flags, as)
	}
	if err := bridge.CheckMDB(as, r.typ == unix.RTM_DELMDB && r.flags&uapi.NLMBulk != 0); err != nil {
		return false, err
	}
	return false, d.vx.MDBRequest(r.typ, r.flags, as, r.ns.linkExists)
}

// mdbGet handles a RTM_GETMDB that is not a dump (rtnl_mdb_get).
func (r *request) mdbGet() (bool, error) {
	d := r.mdbDevice()
	if d == nil {
		return r.pass()
	}
	as, _ := r.attrs(portMsgLen)
	if d.vx != nil {
		if err := bridge.CheckMDBGet(as); err != nil {
			return false, err
		}
		return false, d.vx.MDBGet(as)
	}
	body, err := d.br.MDBGet(as)
	if err != nil {
		return false, err
	}
	r.replyMessage(unix.RTM_NEWMDB, 0, body)
	return false, nil
}

// mdbDump handles a RTM_GETMDB dump (rtnl_mdb_dump): a row a device, of message
// type RTM_GETMDB for a bridge and RTM_NEWMDB for a tunnel.
func (r *request) mdbDump() (bool, error) {
	return r.merge(nil, func(d *dumper) {
		for _, dev := range r.ns.byIndex() {
			switch {
			case dev.br != nil:
				d.row(unix.RTM_GETMDB, dev.br.MDBDump())
			case dev.vx != nil:
				d.row(unix.RTM_NEWMDB, dev.vx.MDBDump())
			}
		}
	})
}
