package nlattr

// Append adds an attribute with payload data, padded.
func Append(b []byte, t uint16, data []byte) []byte {
	b = header(b, t, len(data))
	return pad(append(b, data...))
}

// AppendU8 adds an 8-bit attribute.
func AppendU8(b []byte, t uint16, v uint8) []byte { return append(header(b, t, 1), v, 0, 0, 0) }

// AppendU16 adds a 16-bit attribute in host byte order.
func AppendU16(b []byte, t uint16, v uint16) []byte {
	return append(ne.AppendUint16(header(b, t, 2), v), 0, 0)
}

// AppendBE16 adds a 16-bit attribute in network byte order.
func AppendBE16(b []byte, t uint16, v uint16) []byte {
	return append(be.AppendUint16(header(b, t, 2), v), 0, 0)
}

// AppendU32 adds a 32-bit attribute in host byte order.
func AppendU32(b []byte, t uint16, v uint32) []byte {
	return ne.AppendUint32(header(b, t, 4), v)
}

// AppendBE32 adds a 32-bit attribute in network byte order.
func AppendBE32(b []byte, t uint16, v uint32) []byte {
	return be.AppendUint32(header(b, t, 4), v)
}

// AppendU64 adds a 64-bit attribute in host byte order, unaligned as on x86.
func AppendU64(b []byte, t uint16, v uint64) []byte {
	return ne.AppendUint64(header(b, t, 8), v)
}

// AppendString adds a NUL-terminated string.
func AppendString(b []byte, t uint16, s string) []byte {
	b = header(b, t, len(s)+1)
	return pad(append(append(b, s...), 0))
}

// AppendFlag adds an attribute without payload.
func AppendFlag(b []byte, t uint16) []byte { return header(b, t, 0) }

// Nest opens a nest of type t; add FlagNested to t where the kernel does. The
// mark goes to EndNest after the nest's attributes were appended.
func Nest(b []byte, t uint16) (out []byte, mark int) {
	return header(b, t, 0), len(b)
}

// EndNest closes the nest that Nest opened at mark.
func EndNest(b []byte, mark int) []byte {
	ne.PutUint16(b[mark:], uint16(len(b)-mark))
	return b
}

func header(b []byte, t uint16, n int) []byte {
	b = ne.AppendUint16(b, uint16(HeaderLen+n))
	return ne.AppendUint16(b, t)
}

func pad(b []byte) []byte {
	for len(b)&3 != 0 {
		b = append(b, 0)
	}
	return b
}
