no_ipv6
ip link add br0 address 02:00:00:00:00:b0 type bridge forward_delay 0
pair -d p1 q1
pair -d p2 q2
run ip link set p1 address 02:00:00:00:00:11 mtu 1400 up master br0
run ip link show p1
run ip link show br0
run ip link set p1 down nomaster mtu 1300 name pp alias foo
run ip link show pp
run ip link set p2 master br0 name p3 up
run ip link show p3
run ip link set p3 nomaster down
run ip link set p3 master br0 mtu 99999
run ip link show p3
run ip link set p3 address 01:02:03:04:05:06 master br0
run ip link show p3
run ip link set p3 master br0 address 02:00:00:00:00:13 multicast off arp off promisc on allmulticast on
run ip link show p3
run ip -d link show p3
run ip link set p3 promisc off allmulticast off arp on multicast on
run ip -d link show p3
run ip link set br0 promisc on
run ip -d link show br0
run ip link set br0 address 02:00:00:00:00:ff mtu 1234 up alias "the bridge" group 3 txqueuelen 5
run ip link show br0
run ip link set br0 address 02:00:00:00:00:13
run ip link show br0
run bridge fdb show br br0
run ip link set br0 address 01:00:00:00:00:13
run ip link set br0 address 00:00:00:00:00:00
run ip link set br0 mtu 67
run ip link set br0 mtu 65535
run ip link show br0
run ip link set br0 mtu 65536
run ip link set br0 arp off multicast off
run ip link show br0
run ip link set br0 dynamic on
run ip link set br0 carrier off
run ip link set br0 carrier on
run ip link set br0 protodown on
run ip link show br0
run ip link set br0 protodown off
run ip link set br0 mode dormant
run ip link show br0
run ip link set br0 state up
