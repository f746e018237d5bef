package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/fiber-go/fiber/internal/checkpoint"
)

type checkpointCommand struct {
	Path string `arg:"" help:"The file."`
	CSV  bool   `name:"csv" xor:"format" help:"Write out the results, one a line: index (in the run that has computed it), key, input, result; inputs if CheckpointInputs has kept them."`
	JSON bool   `name:"json" xor:"format" help:"The same as a line of JSON for each result."`
}

// result is one in a checkpoint.
type result struct {
	Index  int    `json:"index"`
	Key    string `json:"key,omitempty"`
	Input  any    `json:"input,omitempty"`
	Result any    `json:"result"`
}

func (c *checkpointCommand) Run() error {
	write, end := func(result) error { return nil }, func() error { return nil }
	switch lines := csv.NewWriter(os.Stdout); {
	case c.JSON:
		out := json.NewEncoder(os.Stdout)
		write = func(r result) error { return out.Encode(r) }
	case c.CSV:
		_ = lines.Write([]string{"index", "key", "input", "result"}) // end returns the error
		write = func(r result) error {
			return lines.Write([]string{strconv.Itoa(r.Index), r.Key, text(r.Input), text(r.Result)})
		}
		end = func() error {
			lines.Flush()
			return lines.Error()
		}
	}
	var last checkpoint.Record
	results, runs := 0, 0
	header, err := checkpoint.Look(c.Path, func(r *checkpoint.Record, frames [][]byte) error {
		if r.Run != "" {
			if last = *r; !r.Over {
				runs++
			}
			return nil
		}
		results += r.N - len(r.Without)
		if !c.CSV && !c.JSON {
			return nil
		}
		return each(r, frames, write)
	})
	err = errors.Join(err, end()) // what comes before an error is written out, too
	if err != nil {
		return fmt.Errorf("%s: %w", c.Path, err)
	}
	if c.CSV || c.JSON {
		return nil
	}
	info, err := os.Stat(c.Path)
	if err != nil {
		return err
	}
	call := "" // inputs may have left its list
	if last.Total > 0 {
		call = strconv.Itoa(last.Total)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{{"function", header.Func}, {"its input", header.In}, {"its result", header.Out}, {"version", header.Version}, {"seed", strconv.FormatUint(header.Seed, 10)},
		{"tasks", call}, {"results", strconv.Itoa(results)}, {"runs", strconv.Itoa(runs)}, {"began", header.Began.Format(time.RFC3339)}, {"written", info.ModTime().Format(time.RFC3339)}} {
		if line[1] != "" {
			fmt.Fprintf(out, "%s\t%s\n", line[0], line[1])
		}
	}
	return out.Flush()
}

// each calls write with the results of a record.
func each(r *checkpoint.Record, frames [][]byte, write func(result) error) error {
	var outs, ins any
	if err := r.Results(frames, &outs, &ins); err != nil {
		return err
	}
	values, inputs := reflect.ValueOf(outs), reflect.ValueOf(ins)
	if values.Kind() != reflect.Slice || values.Len() != r.N || ins != nil && (inputs.Kind() != reflect.Slice || inputs.Len() != r.N) {
		return fmt.Errorf("the results of tasks %d to %d are not a list of %d", r.Lo, r.Lo+r.N-1, r.N)
	}
	for lo, hi := range r.Stretches() {
		for i := lo; i < hi; i++ {
			x := result{Index: r.Lo + i, Result: plain(values.Index(i).Interface())}
			if r.Keys != nil {
				x.Key = r.Keys[i]
			}
			if ins != nil {
				x.Input = plain(inputs.Index(i).Interface())
			}
			if err := write(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// text is a value in a column.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if s := ""; json.Unmarshal(b, &s) == nil { // as a time
		return s
	}
	return string(b)
}

// plain returns a value that JSON can hold: the keys of maps become texts, and so do numbers that JSON does not have.
func plain(v any) any {
	switch x := reflect.ValueOf(v); x.Kind() {
	case reflect.Map:
		m := map[string]any{}
		for it := x.MapRange(); it.Next(); {
			m[fmt.Sprint(it.Key().Interface())] = plain(it.Value().Interface())
		}
		return m
	case reflect.Slice:
		if _, ok := v.([]byte); ok {
			return v
		}
		s := make([]any, x.Len())
		for i := range s {
			s[i] = plain(x.Index(i).Interface())
		}
		return s
	}
	if _, err := json.Marshal(v); err != nil {
		return fmt.Sprint(v)
	}
	return v
}
