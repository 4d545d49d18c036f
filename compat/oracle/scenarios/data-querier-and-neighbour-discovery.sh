# With a querier, groups without members are for routers only. Neighbour discovery lives by groups that hosts report themselves.
ip link add br0 address 02:00:00:00:00:b0 type bridge mcast_query_response_interval 10 forward_delay 0
ip link set br0 up
run ip link set br0 type bridge mcast_querier 1
host ha pa fd00::1/64
host hb pb fd00::2/64
ip link set pa master br0
ip link set pb master br0
settle br0 pa pb
sleep 1
ok ip netns exec ha ping -6 -c 1 -W 5 fd00::2
run ip -n ha neigh flush all
ok ip netns exec ha ping -6 -c 1 -W 5 fd00::2
