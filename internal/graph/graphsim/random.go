package graphsim

import (
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// stream gives a source of randomness that depends on the seed and the labels
// alone, so that what one subscription draws never depends on another.
func stream(seed uint64, labels ...any) *rand.Rand {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, seed)
	for _, label := range labels {
		// Hashes never fail to write.
		_, _ = fmt.Fprintf(h, "%v\x00", label)
	}
	sum := h.Sum(nil)
	//nolint:gosec // Reproducible on purpose; keys come from crypto/rand.
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])))
}

func drawSeed() (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(crand.Reader, b[:]); err != nil {
		return 0, fmt.Errorf("graphsim: draw a seed: %w", err)
	}
	return binary.BigEndian.Uint64(b[:])>>11 | 1, nil
}

// guid draws a version 4 UUID.
func guid(r *rand.Rand) string {
	hi, lo := r.Uint64(), r.Uint64()
	hi = hi&^0xf000 | 0x4000
	lo = lo&^(0xc<<60) | 0x8<<60
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&0xffffffffffff)
}

func isGUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range strings.ToLower(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdef", c) {
			return false
		}
	}
	return true
}

// token draws n characters of those that Outlook's ids are made of.
func token(r *rand.Rand, n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

func pick[T any](r *rand.Rand, choices ...T) T {
	return choices[r.IntN(len(choices))]
}

// upTo draws a duration from 0 to d.
func upTo(r *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(d) + 1))
}
