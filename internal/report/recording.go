package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fiber-go/fiber/event"
)

// format is what a recording begins with.
const format = "fiber report 1"

// Suffix follows the name of a page in that of its recording.
const Suffix = ".recording"

// Info says what runs.
type Info struct {
	Program, Backend, Machine, Go string
	Began                         time.Time
}

// Recording is what is known of a run. All its times are microseconds since the run began.
type Recording struct {
	Format string
	Info
	Last                int64 // what has happened last
	Ended               bool  // the run has ended by itself
	Err                 string
	Width               int64 // of a bin
	Done, Failed, Ready []int // tasks in each bin, and workers at its end
	Lost                int
	Funcs               []*Tally // all calls of each function
	Calls               []*Tally // for each function those that are merged, and then the newest, the oldest of them first
	Processes           []*Process
	Names, Texts        []string // of functions; of errors, the first one is ""
	Boxes               []int64  // of each: worker, microseconds since the beginning of the box before it, microseconds, function, index
	Extras              []int64  // of each box of several tasks, a failure or a later attempt: its place, tasks, failed, run again, attempt, microseconds of running, error
	Merged              Merged
	Objects             map[string]*event.Objects // by process
	Entries             []Entry
	Missed              event.Missed
}

// Tally is what is known of a call, or of several calls of a function.
type Tally struct {
	Func, Pool                         string
	Calls, Open                        int // Open of them have not ended
	Tasks, Kept, Done, Failed, Retried int // Tasks is -1 if it is not known yet
	Began, Ended                       int64
	Err                                string
	Bytes                              int64
	Times                              map[int]int // tasks by bucket of running time
	P50, P95, P99, Max                 int64

	id callID
	fn int32
}

// Process is what is known of a worker or another process.
type Process struct {
	Name, Role, Pool, Func, State, ID, Host string
	Merged                                  bool   // it stands for all those for which there was no room
	Waits                                   string // why it can't start yet
	GPUs                                    int
	Began, Ended                            int64
	Ready, Done, Failed                     int // Ready is how often it was
	Busy                                    int64
	Limit, Resident, Peak, Shared           int64 // bytes
	Sent, Received                          int64
	CPU                                     int64   // milliseconds
	Memory                                  []int64 // KiB, the most in each ten bins, 0 if it is not known
	Used                                    []int64 // CPU by the end of each ten bins
	Reason, Ran, Fate, Words                string  // of a lost one; Fate is its tasks', Words are its last
	Heat                                    string  // a digit of base 64 for each bin: how busy its merged boxes made it
	Top                                     float64 // seconds in a bin that the highest digit stands for

	heat []float32 // seconds
}

// Merged counts the boxes that are not in the task stream any more.
type Merged struct {
	Boxes, Tasks, Failed, Retried int
	Until                         int64
}

// Entry is a line of what has happened: of the log, or a loss.
type Entry struct {
	At                   int64
	Level, Process, Text string
}

// Recording returns what is known by now. It is valid until the next Add.
func (r *Recorder) Recording() *Recording {
	rec := r.rec
	n := int(rec.Last/rec.Width) + 1
	rec.Done, rec.Failed, rec.Ready = rec.Done[:n], rec.Failed[:n], rec.Ready[:n]
	rec.Calls = slices.Concat(r.older, rec.Calls)
	for _, t := range r.older {
		rec.Names = append(rec.Names, t.Func)
		rec.Funcs = append(rec.Funcs, &Tally{Func: t.Func, Began: t.Began, Times: map[int]int{}})
	}
	for _, t := range rec.Calls {
		rec.Funcs[t.fn].merge(t)
	}
	for _, t := range slices.Concat(rec.Calls, rec.Funcs) {
		t.P50, t.P95, t.P99 = t.quantile(0.50), t.quantile(0.95), t.quantile(0.99)
	}
	for _, p := range rec.Processes {
		p.digits(n)
	}
	rec.stream(slices.Concat(r.boxes, r.failures))
	return &rec
}

// stream writes down boxes.
func (rec *Recording) stream(boxes []box) {
	rec.Boxes, rec.Texts = make([]int64, 0, 5*len(boxes)), []string{""}
	texts, last := map[string]int{"": 0}, int64(0)
	for i, b := range boxes {
		rec.Boxes = append(rec.Boxes, int64(b.worker), b.began-last, b.ended-b.began, int64(b.fn), int64(b.index))
		last = b.began
		if b.count == 1 && b.failed+b.again == 0 && b.attempts <= 1 {
			continue
		}
		text := b.err.Value()
		if _, ok := texts[text]; !ok {
			texts[text] = len(rec.Texts)
			rec.Texts = append(rec.Texts, text)
		}
		rec.Extras = append(rec.Extras, int64(i), int64(b.count), int64(b.failed), int64(b.again), int64(b.attempts), b.took, int64(texts[text]))
	}
}

// digits writes down how busy a process was.
func (p *Process) digits(bins int) {
	if p.heat == nil {
		return
	}
	const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	heat := p.heat[:bins]
	top := max(slices.Max(heat), 1e-6)
	digits := make([]byte, len(heat))
	for i, s := range heat {
		digits[i] = base64[int(s/top*63+0.5)]
	}
	p.Heat, p.Top = strings.TrimRight(string(digits), "A"), float64(top)
}

// WriteJSON writes a recording.
func (rec *Recording) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(rec) }

// ReadJSON reads a recording.
func ReadJSON(r io.Reader) (*Recording, error) {
	in := bufio.NewReader(r)
	const begins = `{"Format":"` + format
	if begin, _ := in.Peek(len(begins)); string(begin) != begins {
		return nil, errors.New("it is not a recording of a run, or one of another version of Fiber")
	}
	rec := new(Recording)
	if err := json.NewDecoder(in).Decode(rec); err != nil {
		return nil, fmt.Errorf("the recording is damaged: %w", err)
	}
	return rec, nil
}

// Save has write write a file, which is there as a whole or as it was before.
func Save(path string, write func(io.Writer) error) error {
	next := path + ".new"
	f, err := os.Create(next)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	err = write(out)
	if err = errors.Join(err, out.Flush(), f.Sync(), f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		os.Remove(next)
	}
	return err
}
