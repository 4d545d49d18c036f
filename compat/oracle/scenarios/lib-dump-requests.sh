no_ipv6
steady_bridge br0 p1 p2
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link set vx0 master br0
ip link add vx1 address 02:00:00:00:00:02 type vxlan external vnifilter dstport 4790
bridge vni add dev vx1 vni 5
py <<'P'
import struct
def run(strict):
  s = Nl(strict=strict)
  def ask(label, t, body, flags=DUMP):
    m = s.build(t, flags | REQUEST, body)
    want = Nl.seq
    s.s.send(m)
    c = {}
    while True:
        d = s.read(1)
        if d is None: print(label, "-> none", c); return
        for t_, f, q, b in d:
            if q != want: continue
            if t_ in (2, 3):
                e = struct.unpack_from("<i", b)[0]
                skip = 4
                if t_ == 2:
                    n = struct.unpack_from("<I", b, 4)[0]
                    skip = 20 if f & 0x100 else 4 + ((n + 3) & ~3)
                tl = attrs(b[skip:]) if f & 0x200 else []
                print(label, "->", t_, hex(f), errname(-e) if e else "ok", c, [(k, v[:-1].decode() if k == 1 else struct.unpack("<I", v)[0] if len(v) == 4 else v.hex()) for k, v in tl])
                if t_ == 3 or not (flags & 4) or e: return
                if t_ == 2: return
            k = TYPES.get(t_, t_), hex(f)
            if t_ not in (2, 3): c[k] = c.get(k, 0) + 1
  print("strict", strict)
  for fam in (0, 7, 2, 10, 99):
    I = lambda dev=0, fl=0, ch=0, ty=0: struct.pack("<BBHiII", fam, 0, ty, index(dev), fl, ch)
    A = lambda lab, body, flags=DUMP: ask("link fam %d %s" % (fam, lab), GETLINK, body, flags)
    A("plain", I())
    A("short", I()[:8])
    A("1 byte", I()[:1])
    A("index", I("br0"))
    A("flags", I(0, 1, 1))
    A("type", I(0, 0, 0, 1))
    A("ext", I() + u32(29, 1))
    A("ext vlan", I() + u32(29, 2))
    A("ext short", I() + u16(29, 2))
    A("master", I() + u32(10, index("br0")))
    A("master 0", I() + u32(10, 0))
    A("master -1", I() + u32(10, 0xffffffff))
    A("master short", I() + u16(10, 1))
    A("kind", I() + nest(18, text(1, "bridge")))
    A("kind vxlan", I() + nest(18, text(1, "vxlan")))
    A("kind tun", I() + nest(18, text(1, "tun")))
    A("kind nosuch", I() + nest(18, text(1, "nosuch")))
    A("kind empty", I() + nest(18, text(1, "")))
    A("kind+master", I() + nest(18, text(1, "vxlan")) + u32(10, index("br0")))
    A("name", I() + text(3, "br0"))
    A("unknown", I() + u8(200, 1))
    A("leftover", I() + b"\1\2")
    A("dump+ack", I(), DUMP | ACK)
    A("dump+echo", I(), DUMP | ECHO)
    A("root", I(), 0x100)
    A("match", I(), 0x200)
    A("atomic", I(), DUMP | 0x400)
  A = lambda lab, body, flags=DUMP: ask("neigh " + lab, GETNEIGH, body, flags)
  h = lambda dev=0, st=0, fl=0: ndm(dev, st, fl)
  A("plain", h()); A("dev", h("p1")); A("state", h(0, 2)); A("flags", h(0, 0, SELF)); A("short", h()[:4])
  A("master", h() + u32(9, index("br0"))); A("master vx0", h() + u32(9, index("vx0"))); A("master 9999", h() + u32(9, 9999)); A("master lo", h() + u32(9, 1))
  A("ifindex attr", h() + u32(8, index("vx0"))); A("both", h("p1") + u32(9, index("br0"))); A("mac", h() + mac(2, "02:00:00:00:01:01")); A("unk", h() + u8(99, 1))
  A("dev 9999", h(9999)); A("leftover", h() + b"\1"); A("kind", ndm(0, 0, 0, 7, 1)); A("vlan", h() + u16(5, 1))
  A("ifi", ifi(0, 7)); A("ifi dev", ifi("p1", 7)); A("ifi master", ifi(0, 7) + u32(10, index("br0"))); A("ifi master bad", ifi(0, 7) + u16(10, 5)); A("ifi unknown", ifi(0, 7) + u16(99, 5))
  A("ack", h(), DUMP | ACK)
  A = lambda lab, body, flags=DUMP: ask("mdb " + lab, GETMDB, body, flags)
  b = lambda dev=0: struct.pack("<B3xi", 7, index(dev))
  A("plain", b()); A("dev", b("br0")); A("dev p1", b("p1")); A("dev 9999", b(9999)); A("short", b()[:4]); A("attr", b() + u32(1, 1)); A("leftover", b() + b"\1\1"); A("hdr", struct.pack("<BBBBi", 7, 1, 0, 0, 0))
  A("vx", b("vx0"))
  A = lambda lab, body, flags=DUMP: ask("tunnel " + lab, GETTUNNEL, body, flags)
  b = lambda dev=0, fl=0, rs=0: struct.pack("<BBHi", 7, fl, rs, index(dev))
  A("plain", b()); A("stats", b(0, 1)); A("flags", b(0, 2)); A("flags dev", b("vx1", 2)); A("res", b(0, 0, 1)); A("dev", b("vx1")); A("dev stats", b("vx1", 1)); A("vx0", b("vx0")); A("br0", b("br0")); A("p1", b("p1")); A("9999", b(9999)); A("short", b()[:4]); A("attr", b() + u32(1, 1)); A("no dump", b("vx1"), 0)
run(False)
run(True)
P
