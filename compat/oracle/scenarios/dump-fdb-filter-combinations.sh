no_ipv6
steady_bridge br0 p1 p2
steady_bridge br1 p3
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link set vx0 master br1 up
bridge fdb add 02:00:00:00:01:01 dev p1 master static
bridge fdb add 02:00:00:00:01:02 dev p1 master dynamic
bridge fdb add 02:00:00:00:01:03 dev p2 master extern_learn
bridge fdb add 02:00:00:00:01:04 dev p2 master sticky static
bridge fdb add 02:00:00:00:01:05 dev p3 master local
bridge fdb add 02:00:00:00:01:06 dev vx0 dst 192.0.2.9 self
bridge fdb add 02:00:00:00:01:07 dev vx0 master static
bridge fdb add 02:00:00:00:01:08 dev br0 self local
bridge fdb add 02:00:00:00:01:09 dev q1 self
for w in "" "dev p1" "brport p1" "br br0" "br br1" "br br0 brport p1" "br br0 dev p1" "br br1 brport p1" "dev vx0" "br vx0" "brport vx0" "dynamic" "br br0 dynamic" "br br0 state static" "state permanent" "state reachable" "state stale" "state nosuch" "br br0 vlan 5" "vlan 1" "dev lo" "br lo" "dev nosuch" "br nosuch" "brport nosuch" "dev br0" "br q1" "dev p1 br br0 br br1" "state all" "dev vx0 state permanent"; do
  run bridge fdb show $w
  run bridge -d -s fdb show $w
done
run bridge -j -p fdb show br br0
run bridge -s -j fdb show dev vx0
run bridge -c fdb show br br1
run bridge -t fdb show dev p1
run bridge -o fdb show dev p1
run bridge fdb
run bridge fdb list br br0
run bridge fdb lst br br0
