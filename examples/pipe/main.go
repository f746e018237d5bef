// Command pipe talks with a child over one pipe, and connects two children by
// another.
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/fiber-go/fiber"
)

// answer answers every message until the other end is closed.
var answer = fiber.Register("answer", func(ctx context.Context, conn *fiber.Conn[string]) (struct{}, error) {
	for words, err := range conn.Items(ctx) {
		if err != nil {
			return struct{}{}, err
		}
		if err := conn.Send(ctx, fmt.Sprintf("%s heard %q", fiber.CurrentProcess().Name(), words)); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
})

// source is where a producer sends numbers, and how many.
type source struct {
	To *fiber.Sender[int]
	N  int
}

// produce sends the numbers from 1 to N. The end of its process closes the
// pipe.
var produce = fiber.Register("produce", func(ctx context.Context, s source) (struct{}, error) {
	for i := range s.N {
		if err := s.To.Send(ctx, i+1); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
})

// consume adds up what comes.
var consume = fiber.Register("consume", func(ctx context.Context, from *fiber.Receiver[int]) (sum int, err error) {
	for n, err := range from.Items(ctx) {
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
})

var n = flag.Int("n", 1000, "how many numbers go from one child to the other")

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("pipe takes only flags, not %q; -h lists them", flag.Args())
	case *n < 0:
		return fmt.Errorf("-n %d: it must not be negative", *n)
	}
	answers, err := talk(ctx, "hello", "good bye")
	if err != nil {
		return err
	}
	for _, a := range answers {
		fmt.Println(a)
	}
	sum, err := connect(ctx, *n)
	if err != nil {
		return err
	}
	fmt.Printf("The numbers from 1 to %d went from child to child; their sum is %d\n", *n, sum)
	return nil
}

// talk sends words to a child and returns its answers.
func talk(ctx context.Context, words ...string) ([]string, error) {
	ours, theirs, err := fiber.Pipe[string]()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	child := fiber.NewProcess(answer, theirs, fiber.WithName("Listener"))
	if err := child.Start(ctx); err != nil {
		return nil, err
	}
	answers := make([]string, len(words))
	for i, w := range words {
		if err := ours.Send(ctx, w); err != nil {
			return nil, err
		}
		if answers[i], err = ours.Recv(ctx); err != nil {
			return nil, err
		}
	}
	ours.Close() // the child's loop then ends
	return answers, child.Join(ctx)
}

// connect makes one child send n numbers to another, and returns the sum that
// the other computes.
func connect(ctx context.Context, n int) (sum int, err error) {
	from, to, err := fiber.PipeOneWay[int]()
	if err != nil {
		return 0, err
	}
	sent, added := fiber.Go(ctx, produce, source{to, n}), fiber.Go(ctx, consume, from)
	if _, err := sent.Get(ctx); err != nil {
		return 0, err
	}
	return added.Get(ctx)
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Pipe says something to a child over a pipe and prints what it answers. Then it
passes the two ends of another pipe to two children, of which one sends numbers
and the other adds them up.

	go run ./examples/pipe -n 1000000

Flags:
`)
	flag.PrintDefaults()
}
