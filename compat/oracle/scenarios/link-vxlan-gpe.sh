no_ipv6
run ip link add vx3 type vxlan external gpe dstport 4792
run ip -d link show vx3
run ip link set vx3 up
run ip -d link show vx3
run ip -br link show vx3
run ip -d -j link show vx3
run bridge fdb add 02:00:00:00:00:01 dev vx3 dst 192.0.2.1
run bridge fdb show dev vx3
run bridge fdb get 02:00:00:00:00:01 dev vx3 self
run bridge fdb flush dev vx3
ip link add br0 type bridge
run ip link set vx3 master br0
run ip addr add 192.0.2.1/24 dev vx3
run ip -br addr show vx3
run ip link set vx3 mtu 1400
run ip link set vx3 address 02:00:00:00:00:01
run ip link show vx3
run ip link set vx3 type vxlan ageing 3
run ip link set vx3 type vxlan gpe
run ip link set vx3 down
run ip link del vx3
run ip link add vx3 type vxlan id 5 gpe dstport 4792
run ip link add vx3 type vxlan external gpe gbp dstport 4792
run ip link add vx3 address 02:00:00:00:00:01 type vxlan external gpe learning dstport 4792
