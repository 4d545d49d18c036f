package bridge

// better tells whether the root that a port's LAN leads to, and the way there, is
// better than o's (the comparisons of br_should_become_root_port).
func (p *Port) better(o *Port) bool {
	a, b := &p.stp, &o.stp
	ca, cb := a.designatedCost+p.cost, b.designatedCost+o.cost
	switch {
	case a.designatedRoot != b.designatedRoot:
		return a.designatedRoot < b.designatedRoot
	case ca != cb:
		return ca < cb
	case a.designatedBridge != b.designatedBridge:
		return a.designatedBridge < b.designatedBridge
	case a.designatedPort != b.designatedPort:
		return a.designatedPort < b.designatedPort
	}
	return p.id() < o.id()
}

// selectRoot chooses the root port and with it the root (br_root_selection). Without
// BPDUs only a port that was out of service while the bridge's identifier changed
// still has a foreign root to offer: the identifier that the bridge had then. The
// kernel takes it, so this does.
func (b *Bridge) selectRoot() {
	var root *Port
	for _, p := range b.ports {
		if p.state == stateDisabled || p.designated() || b.stp.id <= p.stp.designatedRoot || root != nil && !p.better(root) {
			continue
		}
		if p.flags&portRootBlock != 0 {
			p.setState(stateListening)
			b.env.Hooks.PortChanged(p, false)
			if b.cfg.forwardDelay > 0 {
				p.stp.forwardDelay.set(b, b.cfg.forwardDelay, p.forwardDelayExpired)
			}
			continue
		}
		root = p
	}
	if root == nil {
		b.stp.rootPort, b.stp.root, b.stp.rootPathCost = 0, b.stp.id, 0
		return
	}
	b.stp.rootPort, b.stp.root = root.no, root.stp.designatedRoot
	b.stp.rootPathCost = root.stp.designatedCost + root.cost
}

// updateConfiguration is br_configuration_update: it chooses the root, and makes the
// ports in service designated that are better than what they heard. A disabled port
// keeps what it knew.
func (b *Bridge) updateConfiguration() {
	b.selectRoot()
	for _, p := range b.ports {
		if p.state != stateDisabled && p.deservesDesignation() {
			p.becomeDesignated()
		}
	}
}

// deservesDesignation is br_should_become_designated_port.
func (p *Port) deservesDesignation() bool {
	b, s := p.b, &p.stp
	switch {
	case p.designated() || s.designatedRoot != b.stp.root:
		return true
	case b.stp.rootPathCost != s.designatedCost:
		return b.stp.rootPathCost < s.designatedCost
	case b.stp.id != s.designatedBridge:
		return b.stp.id < s.designatedBridge
	}
	return p.id() < s.designatedPort
}

// rootChanged is br_become_root_bridge where the bridge was not the root before and
// is now: its own times hold.
func (b *Bridge) rootChanged(was bool) {
	if was || !b.stp.isRoot() {
		return
	}
	c := &b.cfg
	c.forwardDelay, c.helloTime, c.maxAge = c.bridgeForwardDelay, c.bridgeHelloTime, c.bridgeMaxAge
	b.updateHold()
	b.topologyChanged()
	if b.link.Up {
		b.startHello()
	}
}
