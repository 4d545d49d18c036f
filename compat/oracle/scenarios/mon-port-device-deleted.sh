no_ipv6
steady_bridge br0 p1 p2 p3
bridge fdb add 02:00:00:00:01:01 dev p1 master static
bridge fdb add 02:00:00:00:01:02 dev p2 master static
sleep 1.2
mon_start bridge monitor
run ip link del p1
sleep 1.2
run ip link del q2
sleep 1.2
mon_stop
mon_start ip monitor link
run ip link set p3 down
sleep 1.2
run ip link del p3
sleep 1.2
mon_stop
run bridge link
run ip link show br0
