package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// mapped returns how many arenas this process has mapped.
func mapped(t *testing.T) int {
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(maps), "/memfd:fiber-frames")
}

// Large frames arrive as they were sent, in order, whatever else is sent beside them, and leave nothing mapped.
func TestLargeFrames(t *testing.T) {
	before := mapped(t)
	a, b := pair(t, transport.Options{Lend: true})
	const messages = 60
	sizes := []int{0, 10, 1000, 100_000, 256<<10 - 1, 256 << 10, 300_001, 1 << 20, 5 << 20, 33 << 20}
	message := func(seed uint64) (frames [][]byte) {
		r := rand.New(rand.NewPCG(seed, 0))
		for range 1 + r.IntN(4) {
			f := make([]byte, sizes[r.IntN(len(sizes)-r.IntN(2))])
			for i := 0; i < len(f); i += 1 + len(f)/50 {
				f[i] = byte(r.Uint32())
			}
			frames = append(frames, f)
		}
		return frames
	}
	var all sync.WaitGroup
	for from, to := range map[*transport.Conn]*transport.Conn{a: b, b: a} {
		all.Go(func() {
			for i := range uint64(messages) {
				if i%2 == 0 {
					require.NoError(t, from.Post(message(i)...))
				} else {
					require.NoError(t, from.Send(t.Context(), message(i)...))
				}
			}
		})
		all.Go(func() {
			for i := range uint64(messages) {
				got, err := to.Recv()
				require.NoError(t, err)
				want := message(i)
				require.Len(t, got, len(want))
				for j := range got {
					require.True(t, bytes.Equal(got[j], want[j]), "frame %d of message %d", j, i)
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, before+4, mapped(t))
	a.Close()
	b.Close()
	require.Equal(t, before, mapped(t))
}

// What has no room in the memory goes through the socket.
func TestLargeFramesThatNobodyReads(t *testing.T) {
	a, b := pair(t, transport.Options{Lend: true})
	shared(t, a, b)
	for i := range 100 {
		require.NoError(t, a.Post(bytes.Repeat([]byte{byte(i)}, 1<<20)))
	}
	for i := range 100 {
		got, err := b.Recv()
		require.NoError(t, err)
		require.Len(t, got[0], 1<<20)
		require.Equal(t, byte(i), got[0][1<<19])
	}
}

// shared returns once large frames go from a to b through memory.
func shared(t *testing.T, a, b *transport.Conn) {
	go func() {
		for {
			if _, err := a.Recv(); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool {
		before := a.Lent()
		require.NoError(t, a.Post(make([]byte, 1<<20)))
		_, err := b.Recv()
		require.NoError(t, err)
		return a.Lent() > before
	}, time.Minute, time.Millisecond)
}

// A message that is taken back takes no room in the memory.
func TestLargeFramesThatAreTakenBack(t *testing.T) {
	a, b := pair(t, transport.Options{Lend: true})
	shared(t, a, b)
	for range 100 { // until the socket is full
		require.NoError(t, a.Post(make([]byte, 100_000)))
	}
	before := a.Lent()
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		require.ErrorIs(t, a.Send(ctx, make([]byte, 1<<20)), context.DeadlineExceeded)
		cancel()
	}
	require.Equal(t, before, a.Lent())
	for range 100 {
		_, err := b.Recv()
		require.NoError(t, err)
	}
}

// resident returns how many KiB of the arenas in this process are in memory.
func resident(t *testing.T) (kib int) {
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	inside := false
	for line := range strings.Lines(string(maps)) {
		if fields := strings.Fields(line); strings.Contains(line, "-") && !strings.HasSuffix(fields[0], ":") {
			inside = strings.Contains(line, "/memfd:fiber-frames")
		} else if inside && fields[0] == "Rss:" {
			n, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			kib += n
		}
	}
	return kib
}

// The memory is given back some seconds after the last frame, and used again for the next.
func TestMemoryOfLargeFramesIsGivenBack(t *testing.T) {
	a, b := pair(t, transport.Options{Lend: true})
	shared(t, a, b)
	before := resident(t)
	large := func() {
		require.NoError(t, a.Post(make([]byte, 20<<20)))
		_, err := b.Recv()
		require.NoError(t, err)
		require.Greater(t, resident(t), before+20<<10)
	}
	large()
	require.Eventually(t, func() bool { return resident(t) < 100 }, time.Minute, 10*time.Millisecond)
	large()
}

// Messages that are taken back in the order in which they were sent take no room either.
func TestLargeFramesThatAreTakenBackInOrder(t *testing.T) {
	a, b := pair(t, transport.Options{Lend: true, MaxQueue: 64 << 20})
	shared(t, a, b)
	for range 100 { // until the socket is full
		require.NoError(t, a.Post(make([]byte, 100_000)))
	}
	before := a.Lent()
	var leave []func()
	for _, size := range []int{20 << 20, 9 << 20, 300 << 10} {
		ctx, cancel := context.WithCancel(t.Context())
		sent, was := make(chan error, 1), a.Lent()
		go func() { sent <- a.Send(ctx, make([]byte, size)) }()
		for a.Lent() == was { // until it is queued
			runtime.Gosched()
		}
		leave = append(leave, func() {
			cancel()
			require.ErrorIs(t, <-sent, context.Canceled)
		})
	}
	for _, f := range leave {
		f()
	}
	require.Equal(t, before, a.Lent())
	for range 100 {
		_, err := b.Recv()
		require.NoError(t, err)
	}
}

// When everything has been read, all of the memory is there for the next message.
func TestLargeFramesHaveAllTheRoom(t *testing.T) {
	a, b := pair(t, transport.Options{Lend: true})
	shared(t, a, b)
	const size = 10 << 20
	for range 5 {
		for _, frames := range [][][]byte{{make([]byte, 300<<10)}, {make([]byte, size), make([]byte, size), make([]byte, size)}} {
			require.NoError(t, a.Post(frames...))
			_, err := b.Recv()
			require.NoError(t, err)
			require.EqualValues(t, len(frames)*len(frames[0]), a.Lent()%(32<<20))
		}
	}
}

// Recv after Close says so, although a large frame has arrived.
func TestLargeFrameAfterClose(t *testing.T) {
	a, b := pair(t, transport.Options{Lend: true})
	shared(t, a, b)
	for range 2 {
		require.NoError(t, a.Post(make([]byte, 300<<10)))
	}
	require.NoError(t, a.Flush(t.Context()))
	_, err := b.Recv()
	require.NoError(t, err)
	b.Close()
	_, err = b.Recv()
	require.Equal(t, transport.ErrClosed, err)
}

// A message that is taken back before the other end has heard of the memory does not keep it from hearing.
func TestFirstLargeFrameThatIsTakenBack(t *testing.T) {
	a, b := pair(t, transport.Options{Lend: true})
	for range 100 { // until the socket is full
		require.NoError(t, a.Post(make([]byte, 100_000)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Send(ctx, make([]byte, 1<<20)), context.DeadlineExceeded)
	for range 100 {
		_, err := b.Recv()
		require.NoError(t, err)
	}
	shared(t, a, b)
}

// Commands about memory that isn't there end the connection, or are ignored.
func TestHostileMemory(t *testing.T) {
	lent := func(numbers ...uint64) []byte {
		var body []byte
		for _, n := range numbers {
			body = binary.AppendUvarint(body, n)
		}
		return cmd("LENT", string(body))
	}
	null, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	arena := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(os.Getpid())), uint64(null.Fd()))
	for name, c := range map[string]struct {
		bytes []byte
		want  error // nil if the message arrives
	}{
		"lent by nobody":     {append(lent(0, 0, 1000), frame(0, nil)...), transport.ErrProtocol},
		"lent twice":         {append(lent(0, 0, 1000), lent(0, 0, 1000)...), transport.ErrProtocol},
		"another frame":      {append(lent(7, 0, 1000), frame(0, nil)...), transport.ErrProtocol},
		"and not empty":      {append(lent(0, 0, 1000), frame(0, []byte("full"))...), transport.ErrProtocol},
		"cut short":          {lent(0, 0), transport.ErrProtocol},
		"too large":          {append(lent(0, 0, 1<<62), frame(0, nil)...), &transport.SizeError{}},
		"of no process":      {append(cmd("ARENA", strings.Repeat("\xff", 32)), frame(0, nil)...), nil},
		"without its secret": {append(cmd("ARENA", "short"), frame(0, nil)...), nil},
		"something else":     {append(cmd("ARENA", string(arena)+strings.Repeat("\x00", 16)), frame(0, nil)...), nil},
		"mapped without one": {append(cmd("MAPPED", ""), frame(0, nil)...), nil},
	} {
		t.Run(name, func(t *testing.T) {
			conn, p := byHand(t, transport.Options{Lend: true, MaxMessage: 1 << 20})
			_, err := p.Write(c.bytes)
			require.NoError(t, err)
			got, err := conn.Recv()
			if size := (*transport.SizeError)(nil); c.want != nil && errors.As(c.want, &size) {
				require.ErrorAs(t, err, &size)
			} else {
				require.ErrorIs(t, err, c.want)
			}
			require.Equal(t, err == nil, len(got) == 1)
		})
	}
}
