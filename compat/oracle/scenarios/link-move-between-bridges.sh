no_ipv6
for b in 0 1; do ip link add br$b address 02:00:00:00:00:b$b type bridge forward_delay 0; ip link set br$b up; done
pair p1 q1
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link set vx0 up
run ip link set p1 master br0
run ip link set vx0 master br0
run ip link set vx0 master br1
run ip link set p1 master br1
run bridge link
run ip link set vx0 down
run ip link set vx0 master br0
run ip link set vx0 up
run bridge link
run ip link del br0
run bridge link
run ip link show vx0
run ip link set vx0 master br1
run ip link del vx0
run bridge link
run ip link add vx0 address 02:00:00:00:00:01 master br1 type vxlan id 10 dstport 4789 remote 192.0.2.2
run ip link add vx1 address 02:00:00:00:00:02 up master br1 type vxlan id 11 dstport 4789 remote 192.0.2.2
run ip link add vx2 address 02:00:00:00:00:02 up master vx1 type vxlan id 12 dstport 4789 remote 192.0.2.2
run ip link add vx3 up master br9 type vxlan id 13 dstport 4789 remote 192.0.2.2
run bridge -d link
fdb
run ip link set q1 name zz
run ip link del zz
run bridge link
run ip link set br1 master vx0
run ip link set vx0 master vx1
run ip link set vx0 master vx0
run ip link set br1 master br1
run ip link set br1 nomaster
run ip link del br1
run ip -br link
