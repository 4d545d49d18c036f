no_ipv6
host far u0 192.0.2.2/24
ip addr add 192.0.2.1/24 dev u0
run ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 local 192.0.2.1 remote 192.0.2.2
run ip link set vx0 up
py <<'P'
import json, subprocess
S = {}
def raw(data, tos=0):
    def go():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        s.sendto(data, ("192.0.2.1", 4789))
        s.close()
    inside("far", go)
def stats():
    return json.loads(subprocess.check_output("ip -j -s -s link show dev vx0", shell=True))[0]["stats64"]["rx"]
ear = Ear("vx0", ())
def show(name, data, tos=0):
    before = stats()
    raw(data, tos)
    got = []
    while select.select([ear.s], [], [], 0.25)[0]:
        f = ear.frame()
        if f: got.append("%d bytes %s" % (len(f[1]), f[1][12:24].hex()))
    after = stats()
    # whether the kernel's own stack drops what nobody wants is another matter
    print("%s: %s %s" % (name, got or "-", " ".join("%s %+d" % (k, after[k] - before[k]) for k in after if k != "dropped" and after[k] != before[k])))
def head(flags=8, b1=0, b2=0, b3=0, vni=10, low=0): return bytes([flags, b1, b2, b3]) + struct.pack(">I", vni << 8 | low)
F = eth("a2", "1", b"hello")
show("right", head() + F)
for kw in dict(vni=11), dict(flags=0), dict(flags=0x88), dict(flags=0xc), dict(flags=9), dict(b1=1), dict(b2=1), dict(b3=0x80), dict(low=1):
    show(kw, head(**kw) + F)
for n in 0, 7, 8, 9, 21, 22: show("%d bytes" % n, (head() + F)[:n])
for src in "1", "00:00:00:00:00:00", "01:00:5e:00:00:01", "bcast": show("from " + src, head() + eth(src, "1", b"x"))
for dst in "77", "bcast", "01:00:5e:01:01:01": show("to " + dst, head() + eth("a2", dst, b"x"))
M = hw("1") + hw("a2")
for n in 19, 20: show("IPv4 header of %d" % n, head() + M + b"\x08\0" + b"E" * n)
for n in 39, 40: show("IPv6 header of %d" % n, head() + M + b"\x86\xdd" + b"\x60" * n)
show("in fragments", head() + F + bytes(3000))
for outer in range(4):
    for i in range(4):
        show("ECN %d in %d" % (i, outer), head() + eth("a2", "1", ipv4("10.0.0.1", "10.0.0.2", 17, udp(b"x"), tos=i), 0x800), outer)
P
fdb dev vx0
