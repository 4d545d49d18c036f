no_ipv6
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link add br0 address 02:00:00:00:00:b0 type bridge forward_delay 0
ip link set br0 up
ip link set vx0 up master br0
await 'state UP' ip link show br0
sleep 1.2
mon_start ip monitor link
run ip link set vx0 protodown on
sleep 1.2
run ip link show vx0
run bridge link show
run ip link set vx0 protodown off
sleep 1.2
run ip link set vx0 down
sleep 1.2
run ip link set vx0 up
sleep 1.2
mon_stop
run ip link show vx0
run ip link show br0
run ip link set br0 protodown on
