no_ipv6
steady_bridge br0 p1 p2
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link set vx0 master br0
py <<'P'
import struct
s = Nl()
def ask(label, t, flags, body):
    s.s.send(s.build(t, flags | REQUEST | ACK, body))
    for k, f, q, b in s.read(2):
        if k != 2: continue
        e, n = struct.unpack_from("<iI", b)
        tlvs = attrs(b[20 if f & 0x100 else 4 + (n + 3 & ~3):]) if f & 0x200 else []
        print(label, "->", errname(-e) if e else "ok", [d[:-1].decode() if x == 1 else struct.unpack("<I", d)[0] if len(d) == 4 else d.hex() for x, d in tlvs])
n = 0
M = mac(2, "02:00:00:00:01:01")
for dev in ("p1", "br0", "vx0", 9999):
  for fl in (0, SELF):
    for lab, t, nf in (("new", NEWNEIGH, CREATE), ("del", DELNEIGH, 0), ("bulk", DELNEIGH, BULK), ("get", GETNEIGH, 0)):
        h = lambda state=0x80, f=fl: ndm(dev, state if t == NEWNEIGH else 0, f)
        L = "%s %s %x" % (lab, dev, fl)
        A = lambda what, body: ask(L + " " + what, t, nf, body)
        A("nothing", h())
        A("mac", h() + (M if lab != "bulk" else b""))
        A("mac8", h() + attr(2, b"\2" * 8))
        A("vlan 0", h() + M + u16(5, 0))
        A("vlan 5", h() + M + u16(5, 5))
        A("vlan 4095", h() + M + u16(5, 4095))
        A("vlan u32", h() + M + u32(5, 5))
        A("vlan u8", h() + M + u8(5, 5))
        A("dst", h() + M + ip(1, "192.0.2.9"))
        A("dst6", h() + M + ip(1, "2001:db8::9"))
        A("dst3", h() + M + attr(1, b"abc"))
        A("ifindex short", h() + M + u16(8, 1))
        A("ifindex 9999", h() + M + u32(8, 9999))
        A("vni short", h() + M + u16(7, 1))
        A("port", h() + M + be16(6, 9))
        A("port u32", h() + M + u32(6, 9))
        A("master", h() + M + u32(9, index("br0")))
        A("unknown", h() + M + u32(60, 1))
        A("nhid", h() + M + u32(13, 77))
        A("nhid short", h() + M + u16(13, 77))
        A("protocol", h() + M + u8(12, 7))
        A("ext", h() + M + nest(14, u8(1, 1)))
        A("ext not nested", h() + M + plain_nest(14, u8(1, 9)))
        A("ext unknown", h() + M + nest(14, u8(9, 9)))
        A("flags_ext", h() + M + u32(15, 0xff))
        A("flags_ext 1", h() + M + u32(15, 1))
        A("flags_ext short", h() + M + u16(15, 1))
        A("statemask", h() + M + u16(16, 0x80))
        A("flagsmask", h() + M + u8(17, 0x10))
        A("leftover", h() + M + b"\1\0")
        A("type", ndm(dev, 0, fl, 7, 3) + M)
P
fdb
