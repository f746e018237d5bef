package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/checkpoint"
	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/journal"
)

func TestCheckpointCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	file, err := journal.Open(path, time.Hour)
	require.NoError(t, err)
	_, err = checkpoint.Begin(file, &checkpoint.Header{Func: "evaluate", In: "string", Out: "main.Score", Keyed: true, Seed: 7, Began: time.Unix(0, 0)}, false, nil)
	require.NoError(t, err)
	type score struct {
		Mean float64
		By   map[int]string
	}
	add := func(r checkpoint.Record, outs, ins any) {
		frames, err := codec.Marshal(outs)
		require.NoError(t, err)
		inputs, err := codec.Marshal(ins)
		require.NoError(t, err)
		r.Inputs = len(inputs)
		_, err = checkpoint.Append(file, &r, append(frames, inputs...)...)
		require.NoError(t, err)
	}
	_, err = checkpoint.Append(file, &checkpoint.Record{Run: "one", Total: 9})
	require.NoError(t, err)
	add(checkpoint.Record{Lo: 4, N: 2, Keys: []string{"d", "e"}}, []score{{1.5, nil}, {math.NaN(), map[int]string{1: "x"}}}, []string{"fourth", "fi,fth"})
	add(checkpoint.Record{Lo: 0, N: 2, Keys: []string{"", "b"}, Without: []int{0}}, []score{{}, {2, nil}}, []string{"", "first"})

	// Also while the program has it open, and what it is writing is there in part.
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(whole, whole[:20]...), 0o644))
	out, stderr, code := fiber(t, ".", nil, "checkpoint", path)
	require.Zero(t, code, stderr)
	require.Regexp(t, `function    evaluate\nits input   string\nits result  main.Score\nseed        7\ntasks       9\nresults     3\nruns        1\nbegan       1970-.*\nwritten     2`, out)
	out, _, code = fiber(t, ".", nil, "checkpoint", "--csv", path)
	require.Zero(t, code)
	require.Equal(t, `index,key,input,result
4,d,fourth,"{""By"":null,""Mean"":1.5}"
5,e,"fi,fth","{""By"":{""1"":""x""},""Mean"":""NaN""}"
1,b,first,"{""By"":null,""Mean"":2}"
`, out)
	out, _, code = fiber(t, ".", nil, "checkpoint", "--json", path)
	require.Zero(t, code)
	require.Contains(t, out, `{"index":1,"key":"b","input":"first","result":{"By":null,"Mean":2}}`)

	for _, args := range [][]string{{path + "x"}, {"/dev/null"}, {"--csv", "--json", path}, {}} {
		_, stderr, code = fiber(t, ".", nil, append([]string{"checkpoint"}, args...)...)
		require.NotZero(t, code)
		require.NotEmpty(t, stderr)
	}
	require.NoError(t, os.WriteFile(path, []byte("something else"), 0o644))
	_, stderr, code = fiber(t, ".", nil, "checkpoint", path)
	require.NotZero(t, code)
	require.Contains(t, stderr, path+": it is another kind of file")
}
