no_ipv6
pair p1 q1
ip link add vx0 address 02:00:00:00:00:01 type vxlan id 10 dstport 4789 remote 192.0.2.2
ip link set vx0 up
run bridge mdb show
run bridge mdb show dev vx0
run bridge -d mdb show
run bridge mdb add dev vx0 port vx0 grp 239.1.1.1
run bridge mdb add dev vx0 port vx0 grp 239.1.1.1 permanent
run bridge mdb add dev vx0 port p1 grp 239.1.1.1 permanent
run bridge mdb add dev vx0 port vx0 grp 239.1.1.1 permanent src 192.0.2.1
run bridge mdb add dev vx0 port vx0 grp 192.0.2.1 permanent
run bridge mdb add dev vx0 port vx0 grp 239.1.1.1 permanent vid 5
run bridge mdb add dev vx0 port vx0 grp 01:00:00:00:00:05 permanent
run bridge mdb del dev vx0 port vx0 grp 239.1.1.1
run bridge mdb del dev vx0 port vx0 grp 239.1.1.1 permanent
run bridge mdb replace dev vx0 port vx0 grp 239.1.1.1 permanent
run bridge mdb add dev p1 port p1 grp 239.1.1.1 permanent
run bridge mdb add dev lo port lo grp 239.1.1.1 permanent
