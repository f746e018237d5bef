package queue

import "slices"

// line is things in their order. What is added at either end, or removed at the
// front, costs no more than itself, on average: the array has room at both ends.
type line[T any] struct {
	array []T
	first int // those before are zero
}

// small is the length of an array that an empty line keeps.
const small = 64

func (l *line[T]) all() []T { return l.array[l.first:] }

func (l *line[T]) len() int { return len(l.array) - l.first }

// push adds things at the end.
func (l *line[T]) push(things ...T) {
	if len(l.array)+len(things) > cap(l.array) {
		l.array, l.first = slices.Grow(l.all(), len(things)), 0
	}
	l.array = append(l.array, things...)
}

// adopt is push of things whose memory the line may use.
func (l *line[T]) adopt(things []T) {
	if l.len() == 0 && len(things) > small {
		l.array, l.first = things, 0
	} else {
		l.push(things...)
	}
}

// take removes and returns the first n. Its memory may have been the line's.
func (l *line[T]) take(n int) (things []T) {
	if n == l.len() && 2*n > cap(l.array) && n > small {
		things, l.array, l.first = l.all(), nil, 0
		return things
	}
	things = slices.Clone(l.all()[:n])
	l.shift(n)
	return things
}

// shift removes the first n.
func (l *line[T]) shift(n int) {
	clear(l.array[l.first : l.first+n])
	if l.first += n; l.first == len(l.array) {
		l.array, l.first = l.array[:0], 0
		if cap(l.array) > small {
			l.array = nil
		}
	}
}

// remove removes all that are meant.
func (l *line[T]) remove(meant func(T) bool) {
	left := slices.DeleteFunc(l.all(), meant)
	l.array = l.array[:l.first+len(left)]
	l.shift(0)
}
