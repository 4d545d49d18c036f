no_ipv6
bridge_with br0 p1 p2 p3
run bridge link set dev p1 backup_port p2
run bridge fdb add 02:00:00:00:00:a1 dev p1 master static
probe q3 c1 a1 direct -- q1 q2
ip link set q1 down
await NO-CARRIER ip link show p1
probe q3 c1 a1 backup -- q2
probe br0 b0 a1 host -- q2
probe q2 c2 a1 same -- q2 q3
probe q3 c1 a9 flood -- q2
run bridge link set dev p2 isolated on
run bridge link set dev p3 isolated on
probe q3 c1 a1 isolated -- q2
run bridge link set dev p2 isolated off state 4
probe q3 c1 a1 blocked -- q2
run ip link set p2 nomaster
probe q3 c1 a1 none -- q2
