//go:build !race

package promql

// raceDetector says that the race detector is on, under which the scripts take ten times as long.
const raceDetector = false
