// Package vxlan is the VXLAN driver (RFC 7348): link control, the forwarding
// table with its netlink messages, and the frame path between a host or bridge
// on one side and UDP sockets on the other. It behaves as Linux's
// drivers/net/vxlan does, its oddities included, so that a script cannot tell
// the two apart.
//
// A Registry holds the devices of one network namespace: the one that carries
// their datagrams. Control calls are made one at a time, with the RTNL lock of
// that namespace held. Frames come from many threads; they read what the control
// side published through atomics and take a lock only to learn an address.
package vxlan
