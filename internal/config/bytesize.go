package config

import (
	"fmt"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes: 512 * MiB in code, "512MiB" in text.
type ByteSize int64

const (
	KiB ByteSize = 1 << (10 * (iota + 1))
	MiB
	GiB
)

var byteUnits = []struct {
	name string
	size ByteSize
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// String returns s in the largest unit that leaves a whole number.
func (s ByteSize) String() string {
	for _, unit := range byteUnits {
		if s != 0 && s%unit.size == 0 {
			return strconv.FormatInt(int64(s/unit.size), 10) + unit.name
		}
	}
	return "0B"
}

// ParseByteSize parses a whole number with the unit B, KiB, MiB or GiB, in any
// case, such as "512MiB" or "1 GiB".
func ParseByteSize(text string) (ByteSize, error) {
	for _, unit := range byteUnits {
		number, found := strings.CutSuffix(strings.ToLower(text), strings.ToLower(unit.name))
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if size := ByteSize(n) * unit.size; found && err == nil && size/unit.size == ByteSize(n) {
			return size, nil
		}
	}
	return 0, fmt.Errorf("%q is not a whole number of B, KiB, MiB or GiB, or too large", text)
}
