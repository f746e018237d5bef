package fiber

// RefsIn counts the objects that a value names, when it is encoded for another
// process to keep.
func RefsIn(v any) (int, error) {
	value, err := encode("it", v)
	return len(value.Refs), err
}
