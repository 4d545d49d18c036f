package shim

import "math"

// A Range is a half-open interval [Lo, Hi) of descriptor numbers.
type Range struct{ Lo, Hi uint32 }

// maxFD is one more than the highest descriptor number there can be.
const maxFD = math.MaxInt32 + 1

// selectLimit is FD_SETSIZE: a descriptor from this number on cannot be used
// with select(2).
const selectLimit = 1024

// DefaultRanges returns the descriptor numbers at which emulated sockets are
// placed, highest first, for a hard limit of nofile descriptors (RLIMIT_NOFILE).
//
// A filter cannot ask what a descriptor is; it tells emulated sockets by their
// number, so that the calls on all others cost nothing. The filter is fixed for
// the life of a process tree, while a program may lower its limit at any time
// (sh -c 'ulimit -n 256; ip link'): hence the small ranges below 700, each at
// the end of a usual limit, where ordinary descriptors are rare. An ordinary
// socket in a range works, only slower.
func DefaultRanges(nofile uint64) []Range {
	all := []Range{{700, maxFD}, {448, 512}, {224, 256}, {112, 128}, {56, 64}}
	var rs []Range
	for _, r := range all {
		if uint64(r.Lo) < nofile {
			rs = append(rs, r)
		}
	}
	if len(rs) == 0 {
		rs = []Range{{uint32(nofile) / 2, uint32(nofile)}}
	}
	return rs
}

// validRanges reports whether rs can be served: not empty, descending, disjoint.
func validRanges(rs []Range) bool {
	top := uint32(maxFD)
	for _, r := range rs {
		if r.Lo >= r.Hi || r.Hi > top {
			return false
		}
		top = r.Lo
	}
	return len(rs) > 0 && len(rs) <= maxRanges
}

// candidates calls try with each descriptor number in rs that is at least least
// and below limit, in the order of preference, until try returns true.
//
// Each range is filled from its end: the kernel gives the lowest free number to
// other descriptors, so this is where a thread of the program that opens
// something at the same moment is least likely to take the same number. Only the
// numbers that select(2) cannot handle are filled from their start, after those
// that it can.
func candidates(rs []Range, least, limit uint32, try func(fd uint32) bool) bool {
	for _, r := range rs {
		lo, hi := max(r.Lo, least), min(r.Hi, limit)
		for fd := min(hi, selectLimit); fd > lo; fd-- {
			if try(fd - 1) {
				return true
			}
		}
		for fd := max(lo, selectLimit); fd < hi; fd++ {
			if try(fd) {
				return true
			}
		}
	}
	return false
}
