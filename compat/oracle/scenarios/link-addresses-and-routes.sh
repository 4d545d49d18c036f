steady_bridge br0 p1
sysctl -qw net.ipv6.conf.br0.disable_ipv6=1
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
sysctl -qw net.ipv6.conf.vx0.disable_ipv6=1
run ip addr add 192.0.2.1/24 dev br0
run ip addr add 198.51.100.1/24 dev vx0
run ip link set vx0 up
run ip route
run ip -d addr show br0
run ip addr show vx0
run_sorted ip neigh add 192.0.2.7 lladdr 02:00:00:00:07:07 dev br0
run_sorted ip neigh add 198.51.100.7 lladdr 02:00:00:00:07:08 dev vx0
run_sorted ip neigh show
run ip route add 203.0.113.0/24 via 192.0.2.7
run ip route show dev br0
run ip -j addr show dev br0
run ip -br addr
run ip route get 203.0.113.5
run ip link set br0 down
run ip route
run_sorted ip neigh
run ip link set br0 up
run ip route
run ip link set br0 name brX
run ip route
run ip link del brX
run ip route
run ip link set vx0 down
run ip -br addr
run ip addr flush dev vx0
run ip -br addr
run ip addr add 192.0.2.1/24 dev p1
run ip link del vx0
