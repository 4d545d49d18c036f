package vxlan

import (
	"slices"

	"github.com/linkspan/linkspan/fdb"
	"github.com/linkspan/linkspan/netdev"
)

// Registry is the devices whose datagrams one network namespace carries, and
// the sockets that they share (struct vxlan_net).
type Registry struct {
	env     Env
	devices []*Device
	sockets map[socketKey]*socket
	outputs map[netdev.SendConfig]*output
}

// NewRegistry makes a Registry without devices.
func NewRegistry(env Env) *Registry {
	return &Registry{env: env, sockets: map[socketKey]*socket{}, outputs: map[netdev.SendConfig]*output{}}
}

// Devices returns the devices, the oldest first. It is valid until the next
// device is made or closed.
func (r *Registry) Devices() []*Device { return r.devices }

// Check makes the cross-checks of a new device that need other links and devices
// (second half of vxlan_config_validate): its lower link and duplicates.
func (r *Registry) Check(c Config) error { return r.check(&c, nil) }

// InitialMTU returns the MTU of a new device.
func (r *Registry) InitialMTU(c Config) int {
	low, _ := r.lower(c.Link)
	return InitialMTU(c, low.MTU)
}

func (r *Registry) lower(ifindex int) (Lower, bool) {
	if ifindex == 0 || r.env.Lower == nil {
		return Lower{}, false
	}
	return r.env.Lower(ifindex)
}

// inUse tells whether another device than self has the VNI on c's port
// (vxlan_vni_in_use).
func (r *Registry) inUse(c *Config, vni uint32, self *Device) bool {
	for _, d := range r.devices {
		o := &d.cfg
		if d == self || o.Port != c.Port || o.recvFlags() != c.recvFlags() || o.IPv6() != c.IPv6() {
			continue
		}
		if o.VNIFilter {
			if !d.vnis.has(vni) {
				continue
			}
		} else if o.VNI != vni {
			continue
		}
		if c.linkLocal && o.Link != c.Link {
			continue
		}
		return true
	}
	return false
}

// New makes the device that link and cfg describe; host is the way up to its
// TAP. Check has allowed it. Nothing is announced before Announce.
func (r *Registry) New(link netdev.LinkState, cfg Config, host netdev.Egress) (*Device, error) {
	if cfg.Ageing == 0 {
		cfg.Ageing = defaultAgeing
	}
	d := &Device{
		reg: r, env: &r.env, cfg: cfg, link: link, lower: cfg.Link, host: host,
		fixed:  fixed{vni: cfg.VNI, port: cfg.Port, limit: cfg.Limit, external: cfg.CollectMetadata},
		table:  fdb.New[row](fdb.Options{}),
		ageing: cfg.Ageing,
	}
	d.home.Store(&home{ifindex: link.Ifindex, notify: r.env.Notify})
	d.publish()
	r.devices = append(r.devices, d)
	return d, nil
}

func (r *Registry) forget(d *Device) {
	if i := slices.Index(r.devices, d); i >= 0 {
		r.devices = slices.Delete(r.devices, i, i+1)
	}
}
