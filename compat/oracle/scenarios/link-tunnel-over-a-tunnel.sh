no_ipv6
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link set vx0 up
ip addr add 10.9.0.1/24 dev vx0
run ip link add vv address 02:00:00:00:00:03 type vxlan id 99 dstport 4799 remote 10.9.0.2 dev vx0
run ip link set vv up
run_grep mtu ip link show vv
mon_start ip monitor link
run ip link del vx0
mon_stop
run_grep 'v[vx]' ip -br link
# the same over a bridge
run ip link add br0 address 02:00:00:00:00:b0 type bridge
run ip link add vv address 02:00:00:00:00:03 type vxlan id 99 dstport 4799 remote 10.9.0.2 dev br0
run ip link add vw address 02:00:00:00:00:04 type vxlan id 98 dstport 4799 remote 10.9.0.2 dev vv
mon_start ip monitor link
run ip link del br0
mon_stop
run_grep 'v[vw]|br0' ip -br link
