package bridge

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
)

// TestConcurrentFramesAndControl runs frames on several threads beside changes of all
// kinds. The race detector does most of the judging; afterwards no row may point to
// a port that is gone, and the count of learned rows must be right.
func TestConcurrentFramesAndControl(t *testing.T) {
	r := benchRig(t, 4)
	r.deaf = false
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 3 {
		p := r.port(100 + i)
		thr := r.dom.NewThread()
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			fs := make([]netdev.Frame, 16)
			for {
				select {
				case <-stop:
					return
				default:
				}
				for j := range fs {
					dst := macA + uapi.MAC(rng.IntN(40))
					if rng.IntN(8) == 0 {
						dst = broadcast
					}
					fs[j] = *netdev.NewFrame(ether(dst, macA+uapi.MAC(rng.IntN(40))))
				}
				thr.Begin()
				p.Input(thr, fs)
				if i == 0 {
					r.b.HostInput(thr, fs)
				}
				thr.End()
			}
		})
	}
	rng := rand.New(rand.NewPCG(9, 9))
	gone := map[*Port]bool{}
	end := time.Now().Add(400 * time.Millisecond)
	for time.Now().Before(end) {
		p := r.port(101)
		r.Lock()
		mac := macA + uapi.MAC(rng.IntN(40))
		switch rng.IntN(9) {
		case 0:
			_ = r.b.FDBAdd(p, FDBRequest{MAC: mac, State: noarp, NLFlags: create})
		case 1:
			_ = r.b.FDBDel(p, mac, 0)
		case 2:
			change(p, func(l *netdev.LinkState) { l.Carrier = !l.Carrier })
		case 3:
			r.b.DelPort(p)
			r.b.Released(p, false)
			gone[p] = true
			if _, err := r.b.AddPort(portLink(101), sink{}); err != nil {
				t.Error(err)
			}
		case 4:
			r.b.FDBDump(p, func(b []byte) { parseRow(b) })
		case 5:
			_ = p.SetInfo(attrs(a8(unix.IFLA_BRPORT_ISOLATED, uint8(rng.IntN(2))), a8(unix.IFLA_BRPORT_LOCKED, uint8(rng.IntN(2)))))
		case 6:
			_ = r.mdb(unix.RTM_NEWMDB, replace, entry4(102, 1, groupG))
			_ = r.mdb(unix.RTM_DELMDB, 0, entry4(102, 1, groupG))
		case 7:
			_ = r.b.SetInfo(attrs(a32(unix.IFLA_BR_AGEING_TIME, uint32(rng.IntN(2)*100))))
		case 8:
			r.b.AppendInfo(nil)
			_, _ = r.b.FDBGet(mac, 0)
		}
		r.Unlock()
		r.clock.Advance(time.Duration(rng.IntN(40)) * time.Millisecond)
		r.events()
	}
	close(stop)
	wg.Wait()
	learned := 0
	r.b.eachRow(func(e *entry) {
		if gone[e.V.dst.Load()] {
			t.Errorf("row %v points to a released port", uapi.MAC(e.Key().MAC))
		}
		if e.V.has(fdbLearned) {
			learned++
		}
	})
	if n := int(r.b.nLearned.Load()); n != learned {
		t.Errorf("n_learned %d, counted %d", n, learned)
	}
}
