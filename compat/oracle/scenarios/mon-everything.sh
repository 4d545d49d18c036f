no_ipv6
mon_start ip monitor
run ip link add br0 address 02:00:00:00:00:b0 type bridge forward_delay 0
run ip addr add 192.0.2.1/24 dev br0
run ip neigh add 192.0.2.7 lladdr 02:00:00:00:07:07 dev br0
run ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
run ip addr add 198.51.100.1/24 dev vx0
run ip link set vx0 up
run ip link set vx0 down
run ip link del vx0
run ip link del br0
mon_stop
mon_start ip monitor all
run ip link add br0 address 02:00:00:00:00:b0 type bridge forward_delay 0
run ip link set br0 alias x
run ip link del br0
mon_stop
mon_start bridge monitor all
run ip link add br0 address 02:00:00:00:00:b0 type bridge forward_delay 0
run bridge fdb add 02:00:00:00:00:05 dev br0 self local
run bridge fdb del 02:00:00:00:00:05 dev br0 self
run ip link del br0
mon_stop
