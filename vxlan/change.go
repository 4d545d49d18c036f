package vxlan

import (
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// Change is RTM_NEWLINK for a device that exists (vxlan_changelink). The
// arguments are those of ParseConfig. Entries are changed and announced; the
// NEWLINK of the change is the caller's. On error nothing has changed.
func (d *Device) Change(data nlattr.Attrs, has bool, outer nlattr.Attrs) error {
	c, err := ParseConfig(data, has, outer, &d.cfg)
	if err != nil {
		return err
	}
	if err := d.reg.check(&c, d); err != nil {
		return err
	}
	// The link that is below already counts as no change, and so does none.
	lower := c.Link
	if lower == d.lower {
		lower = 0
	}
	if lower != 0 && d.env.Hooks != nil {
		if err := d.env.Hooks.CheckLower(d, lower); err != nil {
			return err
		}
	}
	if c.Remote != d.cfg.Remote {
		if err := d.moveDefault(&c); err != nil {
			return err
		}
	}
	regroup := d.sockets != nil && (c.Remote != d.cfg.Remote || c.Link != d.lower)
	if regroup {
		d.leave(d.cfg.Remote)
	}
	aged := c.Ageing != d.cfg.Ageing
	if c.Ageing == 0 {
		c.Ageing = defaultAgeing
	}
	d.apply(c, lower)
	d.mu.Lock()
	d.ageing = c.Ageing
	if aged && d.running {
		d.armGC(0)
	}
	d.mu.Unlock()
	if regroup {
		return d.join(c.Remote)
	}
	return nil
}

// moveDefault makes the default entry lead to the new remote and no more to the
// old one.
func (d *Device) moveDefault(c *Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.Remote.IsUnspecified() {
		q := d.defaultEntry(c.Remote, c.VNI, c.VNI, c.Link, uapi.NLMAppend|uapi.NLMCreate)
		if err := d.update(q); err != nil {
			return err
		}
	}
	if old := d.cfg.Remote; !old.IsUnspecified() {
		// It is not found, and stays, if the link changed since.
		q := d.defaultEntry(old, d.cfg.VNI, d.cfg.VNI, d.lower, 0)
		_ = d.remove(0, q.srcVNI, q.id)
	}
	return d.moveVNIs(c)
}

// apply stores a changed configuration (vxlan_config_apply). lower is the link
// that it puts the device on, 0 to leave it where it is.
func (d *Device) apply(c Config, lower int) {
	d.cfg = c
	if lower != 0 {
		d.lower = lower
		if low, ok := d.reg.lower(lower); ok {
			limit := max(low.MTU-c.Overhead(), minMTU)
			if d.link.MTU > limit {
				d.link.MTU = limit
				if d.env.Hooks != nil {
					d.env.Hooks.SetMTU(d, limit)
				}
			}
		}
	}
	d.reopenOutputs()
}

// reopenOutputs follows a changed DF and publishes the configuration to the
// frame path.
func (d *Device) reopenOutputs() {
	old := d.sends
	if old == nil {
		d.publish()
		return
	}
	if err := d.openOutputs(); err != nil {
		// The old ones go on; the device keeps working without the new DF.
		if d.env.Log != nil {
			d.env.Log.Error("cannot open sockets", "dev", d.link.Name, "err", err)
		}
		d.publish()
		return
	}
	d.publish()
	for _, c := range old {
		d.reg.closeOutput(c)
	}
}
