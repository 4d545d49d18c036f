no_ipv6
steady_bridge br0 p1 p2
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link set vx0 up master br0
py <<'P'
import struct
s, e = Nl(), Nl(groups=[1])
for dev in ("p1", "vx0", "br0", "q1"):
  for verb, t in (("set", SETLINK), ("del", DELLINK)):
    def S(l, b): s.ask("%s %s %s" % (verb, dev, l), t, 0, ifi(dev, 7) + b)
    S("none", b"")
    for n in range(1, 47):
        S("attr %d u8" % n, nest(12, u8(n, 1)))
        S("attr %d none" % n, nest(12, attr(n)))
    S("attr 7 nested flag", nest(12, nest(7, b"")))
    S("leftover", nest(12, u8(8, 1)) + b"\1")
    S("short u16", nest(12, u8(2, 1)))
    S("mode", nest(26, u16(1, 0)))
    S("flags short", nest(26, u8(0, 1)))
    S("flags master", nest(26, u16(0, 1)))
    S("flags self", nest(26, u16(0, 2)))
    S("flags 8", nest(26, u16(0, 8)))
    S("vlan", nest(26, attr(2, struct.pack("<HH", 0, 5))))
    S("vlan 0", nest(26, attr(2, struct.pack("<HH", 0, 0))))
    S("vlan 4095", nest(26, attr(2, struct.pack("<HH", 0, 4095))))
    S("vlan short", nest(26, attr(2, b"ab")))
    S("vlan range", nest(26, attr(2, struct.pack("<HH", 8, 5)), attr(2, struct.pack("<HH", 16, 7))))
    S("vlan range bad", nest(26, attr(2, struct.pack("<HH", 8, 5)), attr(2, struct.pack("<HH", 16, 3))))
    S("vlan range pvid", nest(26, attr(2, struct.pack("<HH", 10, 5))))
    S("tunnel", nest(26, nest(3, u32(1, 5), u16(2, 5))))
    S("mrp", nest(26, nest(4)))
    S("cfm", nest(26, nest(5)))
    S("mst", nest(26, nest(6)))
    S("unknown", nest(26, nest(9)))
e.events()
P
