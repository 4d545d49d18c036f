no_ipv6
steady_bridge br0 p1 p2
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
bridge fdb add 02:00:00:00:01:01 dev p1 master static
bridge fdb add 02:00:00:00:01:02 dev p1 self
bridge fdb add 02:00:00:00:01:03 dev vx0 dst 192.0.2.9 port 99 vni 7
bridge fdb add 02:00:00:00:01:04 dev br0 self local
for w in "dev p1" "dev p1 master" "dev p1 self" "br br0" "br br0 self" "dev br0" "dev br0 self" "dev vx0" "dev vx0 self" "dev vx0 master" "br vx0" "br vx0 self" "dev p1 br br0" "dev nosuch" "br nosuch" "dev lo self" "dev q1 self" "dev p1 vlan 5" "br br0 vlan 5" "dev p1 master self" "br br0 brport p1" "dev vx0 self vni 7" "dev vx0 self vni 10" "dev p1 dynamic"; do
  for m in 02:00:00:00:01:01 02:00:00:00:01:02 02:00:00:00:01:03 02:00:00:00:01:04; do
    run bridge fdb get $m $w
  done
done
run bridge fdb get dev p1
run bridge fdb get 02:00:00:00:01 dev p1
run bridge -j fdb get 02:00:00:00:01:01 br br0
run bridge -s fdb get 02:00:00:00:01:03 dev vx0 self
run bridge -j -d fdb get 02:00:00:00:01:03 dev vx0 self
