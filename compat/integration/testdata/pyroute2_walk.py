"""A walk through pyroute2's IPRoute: links, forwarding entries and events.

The namespace has the cable p1-p2. Any failed assertion fails the test.
"""
import errno
import select
import sys
import time

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import RTMGRP_LINK, RTMGRP_NEIGH

PATIENCE = 10


def attr(msg, name):
    return msg.get_attr(name)


def kind(msg):
    info = attr(msg, "IFLA_LINKINFO")
    return info and info.get_attr("IFLA_INFO_KIND")


def refused(code, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except NetlinkError as e:
        assert e.code == code, e
        return
    raise AssertionError("not refused with %s" % errno.errorcode[code])


events = []


def event(monitor, what, ok):
    """Waits for an event; those that came before it stay in events."""
    end = time.time() + PATIENCE
    while True:
        for i, m in enumerate(events):
            if ok(m):
                return events.pop(i)
        left = end - time.time()
        assert left > 0 and select.select([monitor], [], [], left)[0], "no event: " + what
        events.extend(monitor.get())


monitor = IPRoute()
monitor.bind(groups=RTMGRP_LINK | RTMGRP_NEIGH)
ip = IPRoute()

ip.link("add", ifname="br0", kind="bridge", br_ageing_time=1000)
refused(errno.EEXIST, ip.link, "add", ifname="br0", kind="bridge")
br = ip.link_lookup(ifname="br0")[0]
ip.link("add", ifname="vx0", kind="vxlan", vxlan_id=100, vxlan_port=4789, vxlan_local="192.0.2.1")
vx = ip.link_lookup(ifname="vx0")[0]
p1 = ip.link_lookup(ifname="p1")[0]
event(monitor, "vx0", lambda m: m["event"] == "RTM_NEWLINK" and attr(m, "IFLA_IFNAME") == "vx0")
for port in vx, p1:
    ip.link("set", index=port, master=br)
for i in br, vx:
    ip.link("set", index=i, state="up")
event(monitor, "p1 is a port", lambda m: m["event"] == "RTM_NEWLINK" and attr(m, "IFLA_IFNAME") == "p1"
      and attr(m, "IFLA_MASTER") == br)

links = {attr(m, "IFLA_IFNAME"): m for m in ip.get_links()}
assert sorted(links) == ["br0", "lo", "p1", "p2", "vx0"], links.keys()
assert kind(links["br0"]) == "bridge" and kind(links["vx0"]) == "vxlan" and kind(links["p1"]) == "veth"
data = attr(links["vx0"], "IFLA_LINKINFO").get_attr("IFLA_INFO_DATA")
assert data.get_attr("IFLA_VXLAN_ID") == 100 and data.get_attr("IFLA_VXLAN_LOCAL") == "192.0.2.1", data
data = attr(links["br0"], "IFLA_LINKINFO").get_attr("IFLA_INFO_DATA")
assert data.get_attr("IFLA_BR_AGEING_TIME") == 1000, data
assert sorted(attr(m, "IFLA_IFNAME") for m in ip.get_links(master=br)) == ["p1", "vx0"]

MAC, FLOOD = "02:00:00:00:00:01", "00:00:00:00:00:00"
MASTER, NOARP = 4, 64  # NTF_MASTER, NUD_NOARP


def remotes(mac):
    return sorted(attr(m, "NDA_DST") for m in ip.fdb("dump", ifindex=vx)
                  if m["ifindex"] == vx and attr(m, "NDA_LLADDR") == mac and attr(m, "NDA_DST"))


ip.fdb("add", ifindex=vx, lladdr=MAC, dst="192.0.2.2")
event(monitor, "the entry", lambda m: m["event"] == "RTM_NEWNEIGH" and attr(m, "NDA_DST") == "192.0.2.2")
refused(errno.EEXIST, ip.fdb, "add", ifindex=vx, lladdr=MAC, dst="192.0.2.3")
ip.fdb("append", ifindex=vx, lladdr=FLOOD, dst="192.0.2.4")
ip.fdb("append", ifindex=vx, lladdr=FLOOD, dst="192.0.2.5")
assert remotes(MAC) == ["192.0.2.2"], remotes(MAC)
assert remotes(FLOOD) == ["192.0.2.4", "192.0.2.5"], remotes(FLOOD)
ip.fdb("add", ifindex=p1, lladdr=MAC, flags=MASTER, state=NOARP)
m = event(monitor, "the bridge's entry", lambda m: m["event"] == "RTM_NEWNEIGH" and attr(m, "NDA_MASTER") == br
          and attr(m, "NDA_LLADDR") == MAC)
assert m["ifindex"] == p1, m
ip.fdb("del", ifindex=vx, lladdr=MAC, dst="192.0.2.2")
event(monitor, "the end of the entry", lambda m: m["event"] == "RTM_DELNEIGH" and attr(m, "NDA_DST") == "192.0.2.2")
refused(errno.ENOENT, ip.fdb, "del", ifindex=vx, lladdr=MAC, dst="192.0.2.2")
assert remotes(MAC) == []

ip.link("set", index=p1, master=0)
for i in vx, br:
    ip.link("del", index=i)
event(monitor, "the end of br0", lambda m: m["event"] == "RTM_DELLINK" and attr(m, "IFLA_IFNAME") == "br0")
assert ip.link_lookup(ifname="br0") == []
ip.close()
monitor.close()
print("ok")
sys.stdout.flush()
