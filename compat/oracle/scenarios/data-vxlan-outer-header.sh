no_ipv6
host far u0 192.0.2.2/24
ip addr add 192.0.2.1/24 dev u0
cat >"$ORACLE_TMP/outer.py" <<'P'
from frames import *
def listen():
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))
    s.bind(("eth0", 0x800))
    return s
S = inside("far", listen)
def show(name, f):
    send("vx0", f)
    while select.select([S], [], [], 1)[0]:
        d, a = S.recvfrom(65535)
        sport, dport, length, sum = struct.unpack_from(">HHHH", d, 34)
        if a[2] == 4 or d[23] != 17 or dport != 4789: continue
        print("%s: tos %02x ttl %d df %d checksum %s source port %s" % (name, d[15], d[22], d[20] >> 6 & 1, "yes" if sum else "no",
            sport if sport < 30000 else "any"))
        return
    print(name + ": nothing")
def ip4(tos=0, ttl=64, df=False): return eth("1", "a2", ipv4("10.0.0.1", "10.0.0.2", 17, udp(b"x"), ttl=ttl, tos=tos, df=df), 0x800)
def ip6(tc=0, ttl=64):
    return eth("1", "a2", struct.pack(">IHBB32x", 6 << 28 | tc << 20, 9, 17, ttl) + udp(b"x"), 0x86dd)
def tag(f, kinds=(0x8100,)): return f[:12] + b"".join(struct.pack(">HH", k, 5) for k in kinds) + f[12:]
show("no ip", eth("1", "a2", b"x"))
for tos in 0, 1, 2, 3, 0xb9: show("tos %02x" % tos, ip4(tos))
show("ttl 9 df", ip4(ttl=9, df=True))
show("ipv6", ip6(0xb9, 7))
show("tagged", tag(ip4(0xb9, 9, True)))
show("tagged twice", tag(ip4(0xb9, 9, True), (0x88a8, 0x8100)))
P
for o in "" "ttl 5 tos 0x13" "tos inherit ttl inherit" "df set" "df inherit" "noudpcsum srcport 1000 1001"; do
  run ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 local 192.0.2.1 remote 192.0.2.2 $o
  ip link set vx0 up
  echo "from outer import *" | PYTHONPATH=$ORACLE_TMP:$PYTHONPATH py
  ip link del vx0
done
