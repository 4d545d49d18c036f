no_ipv6
bridge_with br0 p1 p2
mon_start bridge monitor fdb
run bridge link set dev p1 locked on
probe q1 a1 bcast unknown -- q2 br0
run bridge link set dev p1 mab on learning on
probe q1 a1 bcast unknown -- q2 br0
probe q2 a2 a1 towards -- q1
fdb dev p1
run bridge fdb replace 02:00:00:00:00:a1 dev p1 master dynamic
probe q1 a1 bcast admitted -- q2 br0
probe q2 a1 bcast elsewhere -- q1
probe q1 a1 bcast back -- q2
run bridge fdb add 02:00:00:00:00:a3 dev p1 master static
probe q1 a3 bcast static -- q2
run bridge fdb add 02:00:00:00:00:a4 dev p2 master static sticky
probe q1 a4 bcast sticky -- q2
run bridge fdb add 02:00:00:00:00:a5 dev p1 master local
probe q1 a5 bcast own -- q2
mon_stop
fdb br br0
