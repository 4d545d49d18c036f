no_ipv6
mon_start ip monitor link
run ip link add br1 address 02:00:00:00:00:b1 up type bridge forward_delay 0
sleep 1.5
run ip link add br2 address 02:00:00:00:00:b2 type bridge forward_delay 0
run ip link set br2 up
sleep 1.5
run ip link set br2 down
sleep 1.5
run ip link set br2 up
sleep 1.5
run ip link del br2
mon_stop
run ip -d link show br1
