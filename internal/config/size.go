package config

import (
	"math"
	"strconv"
	"strings"
)

const (
	kibibyte Bytes = 1 << 10
	mebibyte Bytes = 1 << 20
	gibibyte Bytes = 1 << 30
	tebibyte Bytes = 1 << 40
)

// Bytes is a size. It is written as a whole number with B, KiB, MiB, GiB or
// TiB, or without a unit as a number of bytes.
type Bytes int64

// UnmarshalText reads a size as it is written in the file.
func (b *Bytes) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "BKMGTi")
	unit, ok := unitSize(string(text[len(digits):]))
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !ok || Bytes(n) > math.MaxInt64/unit {
		return errNotASize
	}
	*b = Bytes(n) * unit
	return nil
}

// String returns the size in the largest unit that divides it.
func (b Bytes) String() string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if size, _ := unitSize(unit); b != 0 && b%size == 0 {
			return strconv.FormatInt(int64(b/size), 10) + unit
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

func unitSize(unit string) (Bytes, bool) {
	switch unit {
	case "", "B":
		return 1, true
	case "KiB":
		return kibibyte, true
	case "MiB":
		return mebibyte, true
	case "GiB":
		return gibibyte, true
	case "TiB":
		return tebibyte, true
	}
	return 1, false
}
