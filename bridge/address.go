package bridge

import (
	"github.com/linkspan/linkspan/uapi"
)

// defaultMTU is that of a bridge without ports, in bytes.
const defaultMTU = 1500

// setCarrier is netif_carrier_on and _off of the bridge device.
func (b *Bridge) setCarrier(on bool) {
	if b.carrier == on {
		return
	}
	b.carrier = on
	b.env.Hooks.SetCarrier(b, on)
}

// CarrierOn tells whether the bridge device has carrier. A new bridge without
// an address of the user's choice has; from the first event on that concerns its
// ports' states, it has carrier while a port forwards.
func (b *Bridge) CarrierOn() bool { return b.carrier }

// SetUserAddress tells that the user set the bridge device's MAC, which has been
// found valid (br_set_mac_address). From now on it does not follow the ports'.
// Emits DELNEIGH and NEWNEIGH of the bridge's own row; setting the device's MAC
// and its NEWLINK are the caller's.
func (b *Bridge) SetUserAddress(mac uapi.MAC) {
	b.userMAC = true
	if mac != b.link.MAC {
		b.changeBridgeID(mac, false)
	}
	b.publish()
}

// SetUserMTU tells that the user set the bridge device's MTU, in bytes. Where it
// is a change the MTU does not follow the ports' from now on. It must be called
// before LinkChanged reports that MTU. The device's MTU and its NEWLINK are the
// caller's.
func (b *Bridge) SetUserMTU(mtu int) {
	if mtu == b.link.MTU {
		return
	}
	b.link.MTU, b.userMTU = mtu, true
	b.publish()
}

// adjustMTU makes the MTU the lowest of the ports' (br_mtu_auto_adjust).
func (b *Bridge) adjustMTU() {
	if b.userMTU {
		return
	}
	mtu := 0
	for _, p := range b.ports {
		if mtu == 0 || p.link.MTU < mtu {
			mtu = p.link.MTU
		}
	}
	if mtu == 0 {
		mtu = defaultMTU
	}
	if mtu != b.link.MTU {
		b.link.MTU = mtu
		b.env.Hooks.SetMTU(b, mtu)
	}
}

// recalculateID makes the MAC the lowest of the ports', zero without ports,
// unless the user chose one (br_stp_recalculate_bridge_id). It tells whether it
// changed: the caller then owes the bridge's NEWLINK.
func (b *Bridge) recalculateID() bool {
	if b.userMAC {
		return false
	}
	var mac uapi.MAC
	for i, p := range b.ports {
		if i == 0 || p.mac() < mac {
			mac = p.mac()
		}
	}
	if b.stp.id.mac() == mac {
		return false
	}
	b.changeBridgeID(mac, true)
	return true
}

// changeBridgeID gives the bridge another MAC (br_stp_change_bridge_id). device
// tells that the device must be told.
func (b *Bridge) changeBridgeID(mac uapi.MAC, device bool) {
	wasRoot := b.stp.isRoot()
	b.changeOwnAddress(mac)
	old := b.stp.id.mac()
	b.stp.id = b.stp.id.withMAC(mac)
	b.link.MAC = mac
	if device {
		b.env.Hooks.SetAddress(b, mac)
	}
	for _, p := range b.ports {
		if p.stp.designatedBridge.mac() == old {
			p.stp.designatedBridge = p.stp.designatedBridge.withMAC(mac)
		}
		if p.stp.designatedRoot.mac() == old {
			p.stp.designatedRoot = p.stp.designatedRoot.withMAC(mac)
		}
	}
	b.updateConfiguration()
	b.selectStates()
	b.rootChanged(wasRoot)
}
