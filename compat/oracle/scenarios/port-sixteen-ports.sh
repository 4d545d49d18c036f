no_ipv6
ip link add br0 type bridge forward_delay 0
for i in $(seq 1 16); do ip link add p$i address $(printf 02:00:00:00:10:%02x $((20-i))) type veth peer name q$i address $(printf 02:00:00:00:20:%02x $i); ip link set p$i up; done
for i in 3 1 2 16 15 14 4 5 6 7 8 9 13 12 11 10; do ip link set p$i master br0; done
run_grep ether ip link show br0
run bridge link show
run bridge -d link show dev p7
run ip link set p16 nomaster
run ip link set p3 nomaster
run ip link set p3 master br0
run bridge -j link show
run ip -br link show master br0
fdb br br0
for i in 1 3 5 7 9 11 13 15; do ip link del p$i; done
run ip -br link show master br0
run bridge link
fdb br br0
run ip link set br0 up
run ip link del br0
run ip -br link
