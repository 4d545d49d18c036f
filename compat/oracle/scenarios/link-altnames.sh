no_ipv6
ip link add br0 address 02:00:00:00:00:b0 type bridge forward_delay 0
pair p1 q1
run ip link property add dev br0 altname thebridgewithaverylongname altname bb
run ip link property add dev p1 altname theport
run ip link set theport master bb
run ip link show master thebridgewithaverylongname
run ip link show bb
run ip link set bb up
run ip link set theport down
run bridge link show dev theport
run bridge fdb add 02:00:00:00:00:01 dev theport master static
run bridge fdb show br bb
run bridge fdb show br thebridgewithaverylongname
run ip link add vx0 address 02:00:00:00:00:01 type vxlan id 5 dstport 4789 dev theport local 192.0.2.1 remote 192.0.2.2
run ip -d link show vx0
run ip link property add dev vx0 altname vv
run ip link set vv type vxlan ageing 17
run_grep vxlan ip -d link show vv
run ip link set bb type bridge ageing_time 1700
run ip link add vv type bridge
run ip link add bb type vxlan id 6 dstport 4789
run ip link property del dev br0 altname bb
run ip link show bb
run ip link del vv
run ip link show vx0
run ip link del thebridgewithaverylongname
run ip link show br0
run ip link show p1
