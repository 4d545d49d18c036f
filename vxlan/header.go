package vxlan

import "encoding/binary"

// headerLen is the length of the VXLAN header (RFC 7348 section 5).
const headerLen = 8

// Bits of the header, read as a big-endian 64-bit number: flags in the highest
// byte, the VNI in bits 8 to 31.
const (
	flagVNI = 0x08 << 56 // I: the VNI is valid

	usedBits    = flagVNI | 0xffffff<<8
	usedRemCsum = 0x00200000000000ff
	usedGBP     = 0x80ffffff00000000
	usedGPE     = 0x350000ff00000000

	// Remote checksum offload: where summing begins, halved, is in the low seven
	// bits of the last byte; its highest tells UDP from TCP.
	flagRCO = 1 << 53
	rcoUDP  = 0x80
)

// makeHeader returns the header of a plain VXLAN datagram. Only the low 24 bits
// of vni fit.
func makeHeader(vni uint32) (h [headerLen]byte) {
	binary.BigEndian.PutUint64(h[:], flagVNI|uint64(vni&0xffffff)<<8)
	return h
}

// headerVNI returns the VNI of a header.
func headerVNI(h uint64) uint32 { return uint32(h>>8) & 0xffffff }
