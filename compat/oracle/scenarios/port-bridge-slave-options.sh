no_ipv6
steady_bridge br0 p1 p2
s() { run ip link set p1 type bridge_slave "$@"; }
s state 5
s state 2
s priority 64
s priority 7
s cost 0
s cost 9
s guard on root_block on fastleave on hairpin on flood off learning off
s proxy_arp on
s proxy_arp_wifi on
s mcast_router 2 mcast_flood off bcast_flood off mcast_to_unicast on
s group_fwd_mask 65535
s group_fwd_mask 7
s group_fwd_mask 8
s neigh_suppress on vlan_tunnel on isolated on locked on
s mab on
s backup_port p2
s nobackup_port
s backup_nhid 8
s fdb_flush
s mcast_max_groups 5
run ip -d link show p1
run ip -d -j link show p1
run ip link set q1 type bridge_slave cost 4
run ip link set br0 type bridge_slave cost 4
run ip link set lo type bridge_slave cost 4
run ip link set p1 type bridge cost 4
run ip link set p1 type bridge ageing_time 4
run ip link set br0 type vxlan id 4
run ip link set p1 type vxlan id 4
run ip link set p1 type veth
run ip link set br0 type bridge
run ip link set br0 type veth
run ip link set br0 type nosuch
run ip link set p1 master br0 type bridge_slave cost 99
run ip link set q2 master br0 type bridge_slave cost 99
run ip link set p2 nomaster type bridge_slave cost 9
run ip -d link show p1
run ip link show master br0
