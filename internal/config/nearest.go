package config

import "strings"

// nearest returns the candidate that a person who wrote name probably meant,
// or "" when none is near: one that differs by case alone, or by edits to at
// most a third of its letters.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", -1
	for _, candidate := range candidates {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if d > max(1, len(candidate)/3) {
			continue
		}
		if bestDistance < 0 || d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the least number of letters to insert, remove, replace or swap
// with their neighbour to turn a into b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
