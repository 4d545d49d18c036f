no_ipv6
run ip link add type bridge
run ip link add type bridge
run ip link add type vxlan id 5 dstport 4789
ip -br link | awk '{print $1}'
run ip link add br0 address 02:00:00:00:00:b0 txqueuelen 77 mtu 1400 alias hello group 7 type bridge
run_grep br0 ip -d link show br0
run ip link show br0
run ip link add br2 index 500 type bridge
run ip link add br1 type bridge
run ip link add br3 address 01:00:00:00:00:b1 type bridge
run ip link add br3 address 00:00:00:00:00:00 type bridge
run ip link add br3 address 02:00:00:00:00:b1 broadcast ff:ff:ff:ff:ff:fe type bridge
run ip link show br3
run ip link add "br%d" address 02:00:00:00:00:b2 type bridge
run ip link add "x%d" address 02:00:00:00:00:b2 up type bridge
run ip link show x0
run ip link add "y%s" type bridge
run ip link add "z%d%d" type bridge
run ip link add averyveryverylongname type bridge
run ip link add a/b type bridge
run ip link add . type bridge
run ip link add br9 mtu 67 type bridge
run ip link add br9 mtu 68 address 02:00:00:00:00:b9 type bridge
run ip link add br10 mtu 65535 address 02:00:00:00:00:ba type bridge
run ip link add br11 mtu 65536 type bridge
run ip link show br9
run ip link show br10
run ip link del group 7
run ip link show br0
run ip link del group 9
run ip link del group 0
