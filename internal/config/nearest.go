package config

// nearest returns the key that looks most like name, "" when none looks like it at all.
func nearest(name string) string {
	// With half of a short name's letters changed, anything looks like anything: port is no misspelt host.
	best, least := "", min(max(2, len(name)/3), (len(name)-1)/2)+1
	for _, s := range settings {
		key := s.key().Name
		if d := distance(name, key); d < least {
			best, least = key, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete or replace that make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
