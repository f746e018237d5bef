package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
)

// Printers are workers of a pool of their own, so that their tasks hold up no others. A task prints numbered lines,
//
//	said WHO 17 of what there is to say ...
//
// where WHO is a number for this try of the task. When the task has returned, the root prints
//
//	said WHO all 25000
//
// The first process of the run, which need not be the root, reads all that is printed, and counts.

const (
	printers  = 4
	turns     = 8 // the tasks of a printer in a round: while one printer is missed, the others go on
	said      = "said "
	all       = "all"
	printable = "of what there is to say, 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	pieces    = 20 // the parts in which a task prints
)

// told is what a task has printed.
type told struct {
	Who   string
	Lines int
}

var printFunc = fiber.Register("print", func(ctx context.Context, lines int) (told, error) {
	t := told{Who: rand.Text()}
	begun := time.Now()
	for piece := range pieces {
		w := bufio.NewWriterSize(os.Stdout, 64<<10)
		for ; t.Lines < lines*(piece+1)/pieces; t.Lines++ {
			fmt.Fprintf(w, said+"%s %d %s\n", t.Who, t.Lines, printable)
		}
		if err := w.Flush(); err != nil {
			return t, err
		}
		select {
		case <-time.After(time.Until(begun.Add(time.Duration(piece+1) * time.Second / pieces))):
		case <-ctx.Done():
			return t, ctx.Err()
		}
	}
	return t, nil
})

// printRound has each printer print for some seconds.
func printRound(s *soak, ctx context.Context, _ *mathrand.Rand) error {
	lines := make([]int, printers*turns)
	for i := range lines {
		lines[i] = int(s.print * 1e6 / float64(printers*(len(said)+26+7+len(printable))))
	}
	outs, err := fiber.Map(ctx, s.printers, printFunc, lines, fiber.ChunkSize(1))
	for _, out := range outs {
		fmt.Println(said+out.Who, all, out.Lines)
		s.did("print", out.Lines)
	}
	return err
}

// reader reads what this process and all others print, and passes on what is not of the printers.
type reader struct {
	stdout *os.File // this process's own
	begun  time.Time
	ended  chan struct{}

	lock         sync.Mutex
	tasks        map[string]*printed
	lines, bytes int
	faults       []string
}

// printed is what has come of a task.
type printed struct {
	process     string // who has printed it
	next, all   int    // the next line's number, and how many there are, -1 if unknown
	begun, last time.Time
	cut         string // a line of which only the beginning has come
}

// readPrinted has this process's standard output read here. It is called before anything has been printed.
func readPrinted() (*reader, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r := &reader{stdout: os.Stdout, begun: time.Now(), ended: make(chan struct{}), tasks: map[string]*printed{}}
	os.Stdout = out
	go func() {
		defer close(r.ended)
		for b := bufio.NewReaderSize(in, 1<<20); ; {
			line, err := b.ReadString('\n')
			if line != "" && !r.take(strings.TrimSuffix(line, "\n")) {
				r.stdout.WriteString(line)
			}
			if err != nil {
				return
			}
		}
	}()
	return r, nil
}

// quit ends this process once what it has printed has been read. What it has left running may hold the output open.
func (r *reader) quit(code int) {
	if r != nil {
		os.Stdout.Close()
		select {
		case <-r.ended:
		case <-time.After(time.Second):
		}
	}
	os.Exit(code)
}

// take says whether a line is a printer's, and counts it.
func (r *reader) take(line string) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	before, rest, ok := strings.Cut(line, said)
	who, rest, more := strings.Cut(rest, " ")
	number, fill, _ := strings.Cut(rest, " ")
	if !ok || !more || len(who) != len(rand.Text()) {
		if strings.Contains(line, printable[len(printable)/2:]) || strings.Contains(line, "bytes are missing") {
			r.faults = append(r.faults, fmt.Sprintf("a line has come as %q", line))
		}
		return false
	}
	t := r.tasks[who]
	if t == nil {
		t = &printed{all: -1, begun: time.Now()}
		r.tasks[who] = t
	}
	t.last = time.Now()
	n, err := strconv.Atoi(number)
	switch {
	case number == all:
		t.all, _ = strconv.Atoi(fill)
	case err != nil || fill != printable:
		t.cut = line
	default:
		t.process = strings.TrimRight(before, "| ")
		if n != t.next {
			r.faults = append(r.faults, fmt.Sprintf("of %s, line %d has come in the place of line %d", t.process, n, t.next))
		}
		t.next = n + 1
		r.lines++
		r.bytes += len(line) + 1
	}
	if t.next == t.all && t.cut == "" {
		delete(r.tasks, who)
	}
	return true
}

// late returns the tasks that have returned, and of which lines have not come, or that have printed half a line.
func (r *reader) late() (late []printed) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, t := range r.tasks {
		if t.all >= 0 || t.cut != "" {
			late = append(late, *t)
		}
	}
	return late
}

// settle waits for the last lines, and reports what has not come. What a printer had still to deliver is lost with its pod
// or node.
func (r *reader) settle(s *soak) {
	if r == nil || s.printers == nil && s.root == "" {
		return
	}
	excused := func() (n int, late []printed) {
		for _, t := range r.late() {
			if s.killer.struck(t.process, t.begun, t.last) {
				n++
			} else {
				late = append(late, t)
			}
		}
		return n, late
	}
	n, late := excused()
	for end := time.Now().Add(s.patience); len(late) > 0 && time.Now().Before(end); n, late = excused() {
		time.Sleep(tick)
	}
	for _, t := range late {
		s.fault("print", fmt.Sprintf("of %s, %d lines of %d have come; half a line: %q", t.process, t.next, t.all, t.cut))
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, fault := range r.faults {
		s.fault("print", fault)
	}
	fmt.Printf("print: %d lines have come, %.2f MB/s; of %d tasks of killed printers the last ones have not\n", r.lines,
		float64(r.bytes)/1e6/time.Since(r.begun).Seconds(), n)
}
