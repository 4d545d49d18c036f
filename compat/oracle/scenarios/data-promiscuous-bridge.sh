no_ipv6
bridge_with br0 p1 p2
probe q2 a2 bcast x
probe q1 a1 a2 none -- q2 br0
run ip link set br0 promisc on
probe q1 a1 a2 user -- q2 br0
run ip link set br0 promisc off
probe q1 a1 a2 none -- q2 br0
# a device with an address of its own on top
run ip link add mv0 link br0 address 02:00:00:00:00:d0 type macvlan mode bridge
run ip link set mv0 up
probe q1 a1 d0 upper -- q2 mv0
probe q1 a1 a2 upper -- q2 br0
run ip link set mv0 down
probe q1 a1 a2 none -- q2 br0
run ip link set mv0 up
probe q1 a1 a2 upper -- q2 br0
run ip link del mv0
probe q1 a1 a2 none -- q2 br0
# a packet socket, such as tcpdump's
py <<'P'
e = [Ear("br0"), Ear("q2")]
for name, opt in ("none", 0), ("socket", 1), ("none", 2):
    if opt:
        e[0].s.setsockopt(263, opt, struct.pack("iHH8s", socket.if_nametoindex("br0"), 1, 0, b""))
        time.sleep(0.2)
    send("q1", eth("a1", "a2", name.encode()))
    print(hear(e))
P
