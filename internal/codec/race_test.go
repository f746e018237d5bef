//go:build race

package codec_test

// The race detector has pools drop some of what they hold.
const raceDetector = true
