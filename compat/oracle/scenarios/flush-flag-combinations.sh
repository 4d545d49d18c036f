no_ipv6
steady_bridge br0 p1 p2
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link set vx0 master br0
fill() {
bridge fdb replace 02:00:00:00:01:01 dev p1 master static
bridge fdb replace 02:00:00:00:01:02 dev p1 master dynamic
bridge fdb replace 02:00:00:00:01:03 dev p2 master extern_learn
bridge fdb replace 02:00:00:00:01:04 dev p2 master sticky static
bridge fdb replace 02:00:00:00:01:05 dev p2 master local
bridge fdb replace 02:00:00:00:01:06 dev vx0 dst 192.0.2.9 self
bridge fdb replace 02:00:00:00:01:07 dev vx0 dst 192.0.2.9 self extern_learn
bridge fdb replace 02:00:00:00:01:08 dev vx0 master static
bridge fdb replace 02:00:00:00:01:09 dev br0 self local
}
for w in "dev br0" "dev br0 self" "dev br0 brport p1" "dev br0 brport q1" "dev p1" "dev p1 master" "dev p1 self" "dev p1 master self" "dev vx0" "dev vx0 self" "dev vx0 master" "dev vx0 master self" "dev lo" "dev nosuch" "dev br0 permanent" "dev br0 nopermanent" "dev br0 static" "dev br0 nostatic" "dev br0 static permanent" "dev br0 dynamic" "dev br0 nodynamic" "dev br0 sticky" "dev br0 nosticky" "dev br0 extern_learn" "dev br0 noextern_learn" "dev br0 offloaded" "dev br0 added_by_user" "dev br0 noadded_by_user" "dev br0 vlan 5" "dev br0 vlan 0" "dev br0 vlan 5000" "dev br0 brport vx0 static" "dev p2 sticky" "dev br0 brport nosuch" "dev br0 extern_learn sticky" "dev br0 brport br0"; do
  fill
  run bridge fdb flush $w
  fdb
done
run bridge fdb flush
