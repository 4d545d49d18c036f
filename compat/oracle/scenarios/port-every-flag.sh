no_ipv6
steady_bridge br0 p1 p2
ip link add vx0 address 02:00:00:00:00:01 type vxlan external dstport 4789
ip link set vx0 up master br0
for o in guard root_block fastleave learning learning_sync flood mcast_flood mcast_to_unicast mcast_router hairpin neigh_suppress vlan_tunnel isolated locked bcast_flood mab backup_nhid; do
  run bridge link set dev p1 $o on
done
run bridge link set dev p1 mcast_router 2
run bridge link set dev p1 mcast_router 4
run bridge link set dev p1 priority 64
run bridge link set dev p1 priority 63
run bridge link set dev p1 cost 0
run bridge link set dev p1 cost 65536
run bridge link set dev p1 state 9
run bridge link set dev p1 state disabled
run bridge link set dev p1 state 3
run bridge link set dev p1 backup_port p2
run bridge link set dev p1 backup_port p1
run bridge link set dev p1 backup_port lo
run bridge link set dev p1 nobackup_port
run bridge link set dev p1 backup_nhid 5
run bridge link set dev p1 hwmode vepa
run bridge link set dev p1 self
run bridge link set dev p1 self learning off
run bridge link set dev p1 master self learning off
run bridge link set dev br0 learning off
run bridge link set dev br0 self learning off
run bridge link set dev vx0 learning off neigh_suppress on vlan_tunnel on
run bridge -d link show
run ip -d link show p1
run ip -d link show vx0
run bridge -d -j link show
run bridge link set dev p1 mab off
run bridge link set dev p1 locked off
run bridge link set dev p1 learning off
run bridge link set dev p1 mab on
run bridge link set dev p1 mab on locked on
run bridge link set dev p1 learning on
run bridge -d link show dev p1
run bridge link set dev nosuch learning on
run bridge link set dev lo learning on
run bridge link set dev q1 learning on
