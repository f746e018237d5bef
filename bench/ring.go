//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

var ringRows = []row{{name: "ring/allreduce", unit: duration, pairs: 9, open: openAllReduce}}

const (
	ringSize    = 4
	ringNumbers = 25_000_000 // float32
)

// ringWork is the argument of a rank of the benchmark's ring.
type ringWork struct {
	Orders []*fiber.SimpleQueue[int] // how many times, for each rank
	Done   *fiber.SimpleQueue[float32]
}

var reducing = fiber.RegisterRing("bench.reducing", nil, func(ctx context.Context, node *fiber.RingNode, w ringWork) error {
	xs := make([]float32, ringNumbers)
	for {
		n, err := w.Orders[node.Rank()].Get(ctx)
		if errors.Is(err, fiber.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		for range n {
			fillRing(xs, node.Rank())
			if err := fiber.AllReduce(ctx, node, xs); err != nil {
				return err
			}
		}
		if err := w.Done.Put(ctx, xs[len(xs)-1]); err != nil {
			return err
		}
	}
}, meta.CPU(1))

// fillRing sets the first and the last number, to check the sum.
func fillRing(xs []float32, rank int) {
	xs[0], xs[len(xs)-1] = float32(rank+1), float32(rank+1)
}

const ringSum = ringSize * (ringSize + 1) / 2

// openAllReduce measures the sum of 100 MB over four ranks against the same sum
// over bare sockets, and by Gloo, which PyTorch uses where there is no GPU.
func openAllReduce(ctx context.Context, m *match) error {
	w := ringWork{}
	var err error
	if w.Done, err = fiber.NewSimpleQueue[float32](); err != nil {
		return err
	}
	for range ringSize {
		orders, err := fiber.NewSimpleQueue[int]()
		if err != nil {
			return err
		}
		w.Orders = append(w.Orders, orders)
	}
	ended := make(chan error, 1)
	go func() {
		err := fiber.NewRing(ringSize, reducing).Run(ctx, w)
		w.Done.Close()
		ended <- err
	}()
	m.closing(func() {
		for _, orders := range w.Orders {
			orders.Close()
		}
		<-ended
	})
	m.subject = contender{name: "AllReduce", ops: 1, run: timed(func(ctx context.Context, n int) error {
		for _, orders := range w.Orders {
			if err := orders.Put(ctx, n); err != nil {
				return err
			}
		}
		for range ringSize {
			sum, err := w.Done.Get(ctx)
			if err == nil && sum != ringSum {
				err = fmt.Errorf("the sum is %v", sum)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})}
	bare, err := openBareRing(m)
	gloo := besidePeer("Gloo", atMost(0.7), 1, fmt.Sprint("allreduce ", ringSize, " ", ringNumbers))
	m.references = []reference{{contender: bare, bound: atMost(1.5)}, gloo}
	return err
}

// openBareRing starts the processes of a ring without Fiber, each with a socket
// to the next one.
func openBareRing(m *match) (contender, error) {
	var in, out [ringSize]*os.File // in[i] is the other end of out[i-1]
	for i := range ringSize {
		near, far, err := socketFiles()
		if err != nil {
			return contender{}, err
		}
		out[i], in[(i+1)%ringSize] = near, far
		defer near.Close()
		defer far.Close()
	}
	control := make([]*floor, ringSize) // they are told by it to begin
	for i := range control {
		f, err := openFloor(m, "ring:"+strconv.Itoa(i), polled, in[i], out[i])
		if err != nil {
			return contender{}, err
		}
		control[i] = f
	}
	return contender{name: "bare ring", ops: 1, run: timed(func(_ context.Context, n int) error {
		for range n {
			if err := askAll(control, []byte{1}, []byte{ringSum}); err != nil {
				return err
			}
		}
		return nil
	})}, nil
}

func socketFiles() (a, b *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b"), nil
}

// bareSegment is how many bytes are passed on at a time. Of the sizes between
// 32 KiB and 1 MiB this was the fastest.
const bareSegment = 512 << 10

// serveRing is a rank of the bare ring: one goroutine reads from the left,
// adds, and passes the segments to another, which writes to the right.
func serveRing(rank int, control *os.File) error {
	left, right := os.NewFile(4, "left"), os.NewFile(5, "right") // blocking was faster than polled
	segments := make(chan []byte, ringNumbers*4/bareSegment+ringSize)
	written := make(chan error, 1)
	go func() {
		for s := range segments {
			if s == nil {
				written <- nil
				continue
			}
			if _, err := right.Write(s); err != nil {
				written <- err
				return
			}
		}
	}()
	xs := make([]float32, ringNumbers)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&xs[0])), 4*len(xs))
	scratch := make([]float32, bareSegment/4)
	incoming := unsafe.Slice((*byte)(unsafe.Pointer(&scratch[0])), bareSegment)
	part := func(k int) (lo, hi int) {
		k = (k + 2*ringSize) % ringSize
		return k * ringNumbers / ringSize * 4, (k + 1) * ringNumbers / ringSize * 4
	}
	for {
		if _, err := io.ReadFull(control, make([]byte, 1)); err != nil {
			return err
		}
		fillRing(xs, rank)
		for lo, hi := part(rank); lo < hi; lo += bareSegment {
			segments <- memory[lo:min(lo+bareSegment, hi)]
		}
		const steps = 2 * (ringSize - 1)
		for step := range steps {
			for lo, hi := part(rank - 1 - step); lo < hi; lo += bareSegment {
				s := memory[lo:min(lo+bareSegment, hi)]
				if step < ringSize-1 {
					if _, err := io.ReadFull(left, incoming[:len(s)]); err != nil {
						return err
					}
					addFloats(xs[lo/4:lo/4+len(s)/4], scratch[:len(s)/4])
				} else if _, err := io.ReadFull(left, s); err != nil {
					return err
				}
				if step < steps-1 {
					segments <- s
				}
			}
		}
		segments <- nil
		if err := <-written; err != nil {
			return err
		}
		if _, err := control.Write([]byte{byte(xs[len(xs)-1])}); err != nil {
			return err
		}
	}
}

// addFloats adds b to a, eight at a time.
func addFloats(a, b []float32) {
	for len(a) >= 8 && len(b) >= 8 {
		x, y := (*[8]float32)(a), (*[8]float32)(b)
		x[0] += y[0]
		x[1] += y[1]
		x[2] += y[2]
		x[3] += y[3]
		x[4] += y[4]
		x[5] += y[5]
		x[6] += y[6]
		x[7] += y[7]
		a, b = a[8:], b[8:]
	}
	for i := range a {
		a[i] += b[i]
	}
}
