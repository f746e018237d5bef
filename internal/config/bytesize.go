package config

import (
	"errors"
	"fmt"
	"math"
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
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := text[len(number):]
	number = strings.TrimRight(number, " \t")
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("is too large")
	case err != nil:
		return 0, errors.New("is not a whole number with a unit")
	case unit == "":
		return 0, fmt.Errorf("has no unit, write %q", number+"MiB")
	}
	for _, known := range byteUnits {
		if !strings.EqualFold(unit, known.name) {
			continue
		}
		if size := int64(known.size); n > math.MaxInt64/size || n < math.MinInt64/size {
			return 0, errors.New("is too large")
		}
		return ByteSize(n) * known.size, nil
	}
	return 0, fmt.Errorf("has the unknown unit %q", unit)
}
