package batch

// Nearest returns the known name that looks most like name, or "" if none does.
func Nearest(name string, known []string) string {
	best, at := "", len(name)/3+1
	for _, k := range known {
		if d := distance(name, k, at); d <= at && d < max(len(name), len(k)) && (best == "" || d < at) {
			best, at = k, d
		}
	}
	return best
}

// distance is how many single-byte edits, or swaps of neighbours, turn a into
// b; beyond most it may be any larger number. It ignores case.
func distance(a, b string, most int) int {
	if d := len(a) - len(b); d > most || -d > most {
		return most + 1
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if lower(a[i]) == lower(b[j]) {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && lower(a[i]) == lower(b[j-1]) && lower(a[i-1]) == lower(b[j]) {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
