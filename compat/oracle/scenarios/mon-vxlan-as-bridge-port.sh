no_ipv6
pair u0 u1
ip link add br0 address 02:00:00:00:00:b0 type bridge forward_delay 0
ip link set br0 up
sleep 1.2
mon_start ip monitor link
run ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 dev u0 remote 192.0.2.2
run ip link set vx0 up
run ip link set vx0 master br0
sleep 1.2
run ip link set vx0 mtu 1300
run ip link set vx0 address 02:00:00:00:00:0a
run ip link set vx0 type vxlan ageing 5
run ip link set vx0 name vv
run ip link set vv nomaster
sleep 1.2
run ip link set vv master br0
sleep 1.2
run ip link set vv down
sleep 1.2
run ip link del vv
sleep 1.2
mon_stop
mon_start bridge monitor
run ip link add vx0 address 02:00:00:00:00:01 master br0 up type vxlan id 10 dstport 4789 dev u0 remote 192.0.2.2
sleep 1.2
run ip link set vx0 nomaster
sleep 1.2
run ip link set vx0 master br0
sleep 1.2
run ip link del br0
sleep 1.2
run ip link del vx0
mon_stop
mon_start ip monitor link
run ip link add vx0 address 02:00:00:00:00:01 up type vxlan id 10 dstport 4789 dev u0 remote 192.0.2.2
run ip link del u0
sleep 1.2
mon_stop
run ip link show
