package netdev

import "time"

type systemClock struct{ start time.Time }

// SystemClock returns the system's monotonic clock, which starts at 0 now and
// stands still while the machine sleeps.
func SystemClock() Clock { return systemClock{time.Now()} }

func (c systemClock) Now() time.Duration { return time.Since(c.start) }

func (c systemClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}
