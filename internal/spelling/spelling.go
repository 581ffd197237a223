// Package spelling proposes the name that was meant for one that does not exist.
package spelling

import (
	"fmt"
	"strings"
)

// Hint is a hint with the candidate nearest to name, or empty if none is near.
func Hint(name string, candidates []string) string {
	if best, ok := Nearest(name, candidates); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}

// Nearest finds the candidate with the least edit distance, case aside, of at most a third of the name (and at least 1). Ties go to the first by name, so
// that the hint is always the same.
func Nearest(name string, candidates []string) (string, bool) {
	if len(name) > 128 {
		return "", false
	}
	name = strings.ToLower(name)
	best, limit := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		if len(c) > 256 || abs(len(c)-len(name)) > limit {
			continue
		}
		d := distance(name, strings.ToLower(c), limit)
		if d < limit || (d == limit && best != "" && c < best) {
			best, limit = c, d
		}
	}
	return best, best != ""
}

func abs(x int) int { return max(x, -x) }

// distance is the number of insertions, deletions, changes and swaps of neighbours between two byte strings, or more than limit if it is more.
func distance(a, b string, limit int) int {
	prev, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], prev[j-2]+1)
			}
			least = min(least, next[j])
		}
		if least > limit {
			return limit + 1
		}
		prev, row, next = row, next, prev
	}
	return row[len(b)]
}
