no_ipv6
pair p1 q1
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link add vx1 address 02:00:00:00:00:02 type vxlan id 11 dstport 4789 remote 192.0.2.2 dev q1
ip link add br0 address 02:00:00:00:00:b0 type bridge
limits() { ip -d -j link show $1 | grep -oE '"(gso|tso|gro)_max_[a-z]*":[0-9]*' | tr '\n' ' '; echo; }
for d in br0 vx0 vx1 p1; do echo $d; limits $d; done
ip link set p1 master br0
limits br0
ip link set vx1 master br0
limits br0
ip link set vx0 master br0
limits br0
ip link set vx0 nomaster
limits br0
ip link set vx1 nomaster
ip link set p1 nomaster
limits br0
