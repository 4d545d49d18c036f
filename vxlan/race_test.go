//go:build race

package vxlan

const raceEnabled = true
