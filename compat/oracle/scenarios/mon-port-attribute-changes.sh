no_ipv6
steady_bridge br0 p1 p2
sleep 0.5
mon_start ip monitor link
run ip link set p1 name pp
run ip link set pp mtu 1400
run ip link set pp mtu 1400
run ip link set pp address 02:00:00:00:00:77
run ip link set pp address 02:00:00:00:00:77
run ip link set pp alias foo
run ip link set pp promisc on
run ip link set pp promisc off
run ip link set pp group 5
run ip link set pp txqueuelen 5
run ip link set pp type bridge_slave cost 17
run bridge link set dev pp cost 18
run bridge link set dev pp cost 18
run ip link set br0 mtu 1300
run ip link set p2 nomaster
run ip link set pp nomaster
sleep 1.2
mon_stop
