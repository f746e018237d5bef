package transport

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/shm"
)

// A large frame between two processes of a machine does not pass through their socket: the sender copies it into memory that both
// have mapped, an arena, and the receiver copies it out. The socket carries where it is, in a command in front of the message, and
// the frame empty. Each direction has an arena of its own, from its first large frame on.

const (
	lendMin    = 256 << 10 // a frame of fewer bytes goes through the socket
	arenaSize  = 32 << 20
	arenaHead  = 64 << 10 // before the frames, whole pages: the nonce, and how far the receiver has read
	arenaNonce = 16
	arenaName  = "fiber-frames"
	// arenaIdle is how often a look is taken whether frames came since the last one. If none did, the memory is given back.
	arenaIdle = 5 * time.Second
	// lentFrames is how many frames of a message are in the arena at most.
	lentFrames = 100
)

// The commands between two ends: the sender says where its arena is, the receiver that it has mapped it, and the sender where the
// frames of the next message are.
const (
	cmdArena  = "ARENA"
	cmdMapped = "MAPPED" // with a body, that it could not
	cmdLent   = "LENT"
)

// lent says where a frame is.
type lent struct {
	frame int    // its number in the message
	at    uint64 // counted from the arena's beginning on, in all its rounds
	size  uint64
}

// memory is an arena as this process has mapped it.
type memory struct {
	all    []byte
	frames []byte // behind the head
}

func mapArena(fd int) (m memory, err error) {
	m.all, err = unix.Mmap(fd, 0, arenaHead+arenaSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		m.frames = m.all[arenaHead:]
	}
	return m, os.NewSyscallError("mmap", err)
}

// read is how far the receiver has read.
func (m memory) read() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&m.all[64])) }

// of returns where the bytes of a frame are.
func (m memory) of(l lent) []byte { return m.frames[l.at%arenaSize:][:l.size] }

// lentBytes is how many bytes of arenas this process has written to.
var lentBytes atomic.Int64

// lentMost returns how many these may be; other frames go through the socket.
var lentMost = sync.OnceValue(func() int64 { return min(512<<20, shm.Memory()/16) })

// arena is the sender's. The writer's lock guards it.
type arena struct {
	memory
	file  *os.File    // until the receiver has mapped it
	end   uint64      // of the last frame
	floor uint64      // where the first frame is since the arena was last empty
	holes [][2]uint64 // frames that were taken back while others lay behind them
	high  int64       // so many bytes have been written to
	used  uint64      // end when the timer ran last
	timer *time.Timer
	none  bool // it could not be made, or the connection has ended
}

// mapped notes that the receiver has mapped it, or could not.
func (a *arena) mapped(ok bool) {
	switch {
	case a.file == nil:
	case ok:
		_ = a.file.Close()
		a.file = nil
	default:
		a.close()
	}
}

// shared reports whether the receiver has mapped it.
func (a *arena) shared() bool { return a.all != nil && a.file == nil }

// open makes the arena, and returns what the receiver is told.
func (a *arena) open() (body []byte, err error) {
	fd, err := unix.MemfdCreate(arenaName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), arenaName)
	if err = f.Truncate(arenaHead + arenaSize); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, arenaSeals)
	}
	if err == nil {
		a.memory, err = mapArena(fd)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	a.file = f
	_, _ = rand.Read(a.all[:arenaNonce])
	body = binary.BigEndian.AppendUint64(nil, uint64(os.Getpid()))
	body = binary.BigEndian.AppendUint64(body, uint64(fd))
	return append(body, a.all[:arenaNonce]...), nil
}

// arenaSeals keep the receiver from what ends a process: memory that becomes shorter.
const arenaSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// lend copies a frame into the arena, if there is room.
func (a *arena) lend(frame []byte) (l lent, ok bool) {
	if !large(frame) || len(frame) > arenaSize {
		return l, false
	}
	read, at, size := a.unread(), a.end, uint64(len(frame))
	if empty := read >= a.end; empty || at%arenaSize+size > arenaSize {
		at = (at + arenaSize - 1) / arenaSize * arenaSize
		if empty {
			read = at // the same memory again
		}
	}
	if at+size-read > arenaSize || !a.reach(int64(at%arenaSize+size)) {
		return l, false
	}
	l = lent{at: at, size: size}
	copy(a.of(l), frame)
	a.end, a.floor = at+size, read
	return l, true
}

// unread returns from where on frames may be unread.
func (a *arena) unread() uint64 { return max(a.floor, a.read().Load()) }

// reach has the first bytes of the arena be memory, if so much may be. Memory that isn't there would end the process that writes.
func (a *arena) reach(n int64) bool {
	more := n - a.high
	if more <= 0 {
		return true
	}
	from := a.high &^ int64(os.Getpagesize()-1)
	ok := lentBytes.Add(more) <= lentMost()
	if ok {
		err := unix.Madvise(a.frames[from:n], unix.MADV_POPULATE_WRITE)
		ok = err == nil || err == unix.EINVAL // the kernel is older than 5.14
	}
	if !ok {
		lentBytes.Add(-more)
		return false
	}
	a.high = n
	return true
}

// takeBack takes frames back that will not be sent.
func (a *arena) takeBack(from, to uint64) {
	if from == to || a.all == nil {
		return
	}
	a.holes = append(a.holes, [2]uint64{from, to})
	read := a.unread()
	for i := len(a.holes) - 1; i >= 0; i = min(i, len(a.holes)) - 1 {
		switch hole := a.holes[i]; {
		case hole[1] == a.end: // nothing is behind it any more
			a.end = hole[0]
			a.holes = slices.Delete(a.holes, i, i+1)
			i = len(a.holes) // another one may be the last now
		case hole[1] <= read:
			a.holes = slices.Delete(a.holes, i, i+1)
		}
	}
}

// giveBack returns the memory to the system if the arena is empty and no frame came since the last call.
func (a *arena) giveBack() (done bool) {
	used := a.used
	a.used = a.end
	if a.all == nil || a.end != used || a.unread() < a.end || unix.Madvise(a.frames, unix.MADV_REMOVE) != nil {
		return false
	}
	lentBytes.Add(-a.high)
	a.high = 0
	return true
}

func (a *arena) close() {
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.file != nil {
		_ = a.file.Close()
	}
	if a.all != nil {
		_ = unix.Munmap(a.all)
		lentBytes.Add(-a.high)
	}
	*a = arena{none: true}
}

// borrowed is the receiver's side of the other end's arena.
type borrowed struct {
	mu sync.Mutex
	memory
	ended bool   // the connection has
	next  []lent // of the next message; of whoever reads
}

// open maps the arena that the sender has told of.
func (b *borrowed) open(body []byte) error {
	if len(body) != 16+arenaNonce {
		return fmt.Errorf("%w: %s of %d bytes", ErrProtocol, cmdArena, len(body))
	}
	// The path may be of anything, if the sender sees other processes than this one. Opening it could block, or be noticed.
	path := fmt.Sprintf("/proc/%d/fd/%d", binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[8:]))
	if to, err := os.Readlink(path); err != nil || to != "/memfd:"+arenaName+" (deleted)" {
		return errors.Join(errors.New("it is no arena"), err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return err
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	if seals&arenaSeals != arenaSeals || info.Size != arenaHead+arenaSize {
		return errors.New("it is no arena")
	}
	m, err := mapArena(fd)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.all != nil || string(m.all[:arenaNonce]) != string(body[16:]) {
		_ = unix.Munmap(m.all)
		return errors.New("it is another arena")
	}
	b.memory = m
	return nil
}

// take appends a frame that is in the arena to memory.
func (b *borrowed) take(to []byte, l lent) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil, net.ErrClosed
	}
	if b.all == nil || l.at%arenaSize+l.size > arenaSize {
		return nil, fmt.Errorf("%w: a frame of %d bytes that is not there", ErrProtocol, l.size)
	}
	to = append(to, b.of(l)...) // which does not clear what it copies to
	b.read().Store(l.at + l.size)
	return to, nil
}

func (b *borrowed) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended = true; b.all != nil {
		_ = unix.Munmap(b.all)
		b.memory = memory{}
	}
}

// offer opens the arena for the first large frame. The writer's lock is held.
func (c *Conn) offer(frames [][]byte) {
	a := &c.w.arena
	if !c.lends || a.none || a.all != nil || !slices.ContainsFunc(frames, large) {
		return
	}
	body, err := a.open()
	if a.none = err != nil; err == nil {
		_ = c.z.SendCmd(cmdArena, body)
	}
}

func large(frame []byte) bool { return len(frame) >= lendMin }

// lend replaces large frames by empty ones, and sends the command that says where they are. The writer's lock is held.
func (c *Conn) lend(frames [][]byte) {
	a := &c.w.arena
	if !a.shared() {
		return
	}
	var command []byte
	n := 0
	for i, f := range frames {
		if n == lentFrames {
			break
		}
		if l, ok := a.lend(f); ok {
			frames[i] = []byte{}
			command = binary.AppendUvarint(command, uint64(i))
			command = binary.AppendUvarint(command, l.at)
			command = binary.AppendUvarint(command, l.size)
			n++
		}
	}
	if n == 0 {
		return
	}
	_ = c.z.SendCmd(cmdLent, command)
	if a.timer == nil {
		a.used = 0
		a.timer = self.AfterFunc(arenaIdle, c.giveBack)
	}
}

// giveBack returns the arena's memory to the system, or looks again later.
func (c *Conn) giveBack() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	a := &c.w.arena
	switch {
	case a.timer == nil:
	case a.giveBack():
		a.timer = nil
	default:
		a.timer.Reset(arenaIdle)
	}
}

// lentCommand handles a command about arenas, on Recv's goroutine.
func (c *Conn) lentCommand(name string, body []byte) error {
	if !c.lends {
		return nil
	}
	switch name {
	case cmdArena:
		var refusal []byte
		if err := c.r.borrowed.open(body); err != nil { // then frames go on coming through the socket
			refusal = []byte("no")
		}
		w := c.w
		w.mu.Lock()
		if w.err == nil {
			_ = c.z.SendCmd(cmdMapped, refusal)
		}
		w.kick(false)
	case cmdMapped:
		c.w.mu.Lock()
		c.w.arena.mapped(len(body) == 0)
		c.w.mu.Unlock()
	case cmdLent:
		if len(c.r.borrowed.next) > 0 {
			return fmt.Errorf("%w: %s twice", ErrProtocol, cmdLent)
		}
		for len(body) > 0 {
			var numbers [3]uint64
			for i := range numbers {
				v, n := binary.Uvarint(body)
				if n <= 0 {
					return fmt.Errorf("%w: %s", ErrProtocol, cmdLent)
				}
				numbers[i], body = v, body[n:]
			}
			c.r.borrowed.next = append(c.r.borrowed.next, lent{int(numbers[0]), numbers[1], numbers[2]})
		}
	}
	return nil
}
