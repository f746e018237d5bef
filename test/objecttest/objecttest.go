// Package objecttest helps tests of objects: it makes homes, and visitors that
// use their objects by sending the messages that the test chooses.
package objecttest

import (
	"bytes"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend/local"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// patience is how long a test waits for what should take no time.
const patience = time.Minute

// Run is a run of homes that are all in this process.
type Run struct {
	t    testing.TB
	root *tree.Node
	log  logged
}

// logged is what homes have logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Logs waits until homes have logged all of these words.
func (r *Run) Logs(words ...string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		r.log.mu.Lock()
		defer r.log.mu.Unlock()
		return !slices.ContainsFunc(words, func(w string) bool { return !bytes.Contains(r.log.text.Bytes(), []byte(w)) })
	}, patience, time.Millisecond, "no log has %q", words)
}

// NewRun makes a run that ends with the test. Its messages are at most 1 MiB.
func NewRun(t testing.TB) *Run {
	t.Helper()
	dir, err := os.MkdirTemp("", "home") // a short name: a socket's path is limited
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &Run{t: t}
	r.root, err = tree.NewRoot(config.Config{RuntimeDir: dir, MaxMessage: 1 << 20, HeartbeatInterval: time.Second,
		HeartbeatTimeout: time.Hour}, local.New(), slog.New(slog.NewTextHandler(&r.log, nil)))
	require.NoError(t, err)
	return r
}

// Silence sets heartbeat_timeout for the homes that are made from now on.
func (r *Run) Silence(d time.Duration) { r.root.Config.HeartbeatTimeout = d }

// Lines returns how many lines homes have logged.
func (r *Run) Lines() int {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return bytes.Count(r.log.text.Bytes(), []byte("\n"))
}

// Home makes the Server of a process of that name. It is closed after the test.
func (r *Run) Home(name string) *object.Server {
	node := &tree.Node{Config: r.root.Config, Backend: r.root.Backend, Name: name, Run: r.root.Run, Credentials: r.root.Credentials, Log: r.root.Log,
		Parent: new(tree.Parent)}
	s := object.New(Over(node))
	r.t.Cleanup(s.Close)
	return s
}

// Over returns the options of a Server that listens and dials as the node does.
func Over(n *tree.Node) object.Options {
	return object.Options{Name: n.Name, MaxMessage: int64(n.Config.MaxMessage), HeartbeatTimeout: n.Config.HeartbeatTimeout,
		Listen: n.Listen, Dial: n.Dial, Ended: tree.ErrShutdown, Log: n.Log}
}

// Dial connects to the endpoint of a home.
func (r *Run) Dial(endpoint string) (*transport.Conn, error) {
	return r.root.Dial(r.t.Context(), endpoint)
}

// Visitor plays a process that uses a home's objects.
type Visitor struct {
	t       testing.TB
	conn    *transport.Conn
	last    uint64
	asked   map[uint64]uint64 // the objects of requests
	arrived chan [][]byte     // closed at the end

	Keeps bool          // does not acknowledge answers that name objects
	Left  time.Duration // how long the answers to requests are wanted, 0 for as long as it takes
}

// Visit makes a visitor of a home.
func (r *Run) Visit(s *object.Server) *Visitor {
	r.t.Helper()
	endpoint, err := s.Endpoint()
	require.NoError(r.t, err)
	conn, err := r.Dial(endpoint)
	require.NoError(r.t, err)
	v := &Visitor{t: r.t, conn: conn, arrived: make(chan [][]byte, 1000)}
	go func() {
		defer close(v.arrived)
		for {
			frames, err := conn.Recv()
			if err != nil {
				return
			}
			v.arrived <- frames
		}
	}()
	r.t.Cleanup(v.Die)
	v.say(wire.MustPack(wire.KindVisit, wire.Visit{Name: "Visitor"})...)
	return v
}

// Shout sends a message for which the home may end the connection.
func (v *Visitor) Shout(frames ...[]byte) { v.conn.Post(frames...) }

func (v *Visitor) say(frames ...[]byte) {
	v.t.Helper()
	require.NoError(v.t, v.conn.Send(v.t.Context(), frames...))
}

func (v *Visitor) tell(kind wire.Kind, m wire.Request, says ...[]byte) {
	v.t.Helper()
	v.say(m.Pack(kind, says...)...)
}

// Hold holds an object.
func (v *Visitor) Hold(made uint64) {
	v.t.Helper()
	v.tell(wire.KindHold, wire.Request{Object: made})
}

// Release ends the hold of an object.
func (v *Visitor) Release(made uint64) {
	v.t.Helper()
	v.tell(wire.KindRelease, wire.Request{Object: made})
}

// Number is the number of an object.Op, or of an int.
func Number(op any) byte {
	return reflect.ValueOf(op).Convert(reflect.TypeFor[byte]()).Interface().(byte)
}

// Raw is an encoded request, for one that no Fiber sends.
type Raw []byte

// Ask sends a request and returns its id. The operation is an object.Op or any
// number; q is what it is asked with, nil for an object.None.
func (v *Visitor) Ask(made uint64, op, q any) (id uint64) {
	v.t.Helper()
	v.last++
	v.say(v.Request(v.last, made, op, q)...)
	return v.last
}

// Tell sends a request that has no answer.
func (v *Visitor) Tell(made uint64, op, q any) {
	v.t.Helper()
	v.say(v.Request(0, made, op, q)...)
}

// Request makes the message of a request.
func (v *Visitor) Request(id, made uint64, op, q any) [][]byte {
	v.t.Helper()
	if q == nil {
		q = object.None{}
	}
	asked := reflect.New(reflect.TypeOf(q))
	asked.Elem().Set(reflect.ValueOf(q))
	frames := object.Pack(asked.Interface())
	if raw, ok := q.(Raw); ok {
		frames = [][]byte{raw}
	}
	if v.asked == nil {
		v.asked = map[uint64]uint64{}
	}
	v.asked[id] = made
	m := wire.Request{ID: id, Object: made, Op: Number(op), Left: v.Left}
	return m.Pack(wire.KindRequest, frames...)
}

// Overdue sends a request whose deadline is over when Overdue returns: the home
// has served it before. Its GiveUp is still to come.
func (v *Visitor) Overdue(made uint64, op, q any) (id uint64) {
	v.t.Helper()
	v.Left = time.Millisecond
	id = v.Ask(made, op, q)
	v.Left = 0
	v.Settled()
	time.Sleep(2 * time.Millisecond)
	return id
}

// GiveUp says that the answer to a request is not waited for any more.
func (v *Visitor) GiveUp(id uint64) {
	v.t.Helper()
	v.tell(wire.KindGiveUp, wire.Request{ID: id, Object: v.asked[id]})
}

// Took says that an answer has been taken.
func (v *Visitor) Took(id uint64) {
	v.t.Helper()
	v.tell(wire.KindTaken, wire.Request{ID: id})
}

// Settled returns when the home has handled everything that was sent.
func (v *Visitor) Settled() {
	v.t.Helper()
	id := v.Ask(0, 0, nil) // no object has this number
	require.Equal(v.t, byte(object.Gone), v.Reply(id).Code)
}

// Expelled waits until the home has ended the connection.
func (v *Visitor) Expelled() {
	v.t.Helper()
	for late := time.After(patience); ; {
		select {
		case _, ok := <-v.arrived:
			if !ok {
				return
			}
		case <-late:
			require.FailNow(v.t, "the home goes on with it")
		}
	}
}

// Bye says goodbye and ends the connection.
func (v *Visitor) Bye() {
	v.t.Helper()
	v.say(wire.MustPack(wire.KindBye, nil)...)
	v.Die()
}

// Die ends the connection without a goodbye.
func (v *Visitor) Die() { v.conn.Close() }

// Reply is an answer or a notice.
type Reply struct {
	Code byte
	Op   byte
	Says [][]byte
}

// Read decodes an answer or a notice into what x points to.
func (r Reply) Read(t testing.TB, x any) {
	t.Helper()
	require.Zero(t, r.Code, string(r.Says[0]))
	require.NoError(t, object.Unpack(r.Says, x))
}

// next waits for the next message.
func (v *Visitor) next() [][]byte {
	v.t.Helper()
	select {
	case frames, ok := <-v.arrived:
		require.True(v.t, ok, "the connection has ended")
		return frames
	case <-time.After(patience):
		require.FailNow(v.t, "nothing comes")
		return nil
	}
}

// Reply waits for the next message, which must be the answer to the request.
func (v *Visitor) Reply(id uint64) Reply {
	v.t.Helper()
	frames := v.next()
	var m wire.Reply
	require.Equal(v.t, wire.KindReply, wire.KindOf(frames))
	require.NoError(v.t, m.Unpack(frames))
	require.Equal(v.t, id, m.ID)
	if m.Names && !v.Keeps {
		v.Took(id)
	}
	return Reply{Code: m.Code, Says: frames}
}

// Notice waits for the next message, which must be a notice of the object.
func (v *Visitor) Notice(made uint64) Reply {
	v.t.Helper()
	frames := v.next()
	var m wire.Request
	require.Equal(v.t, wire.KindNotice, wire.KindOf(frames))
	require.NoError(v.t, m.Unpack(frames))
	require.Equal(v.t, made, m.Object)
	return Reply{Op: m.Op, Says: frames}
}

// Silent checks that no message came before the home had handled everything that
// was sent.
func (v *Visitor) Silent() {
	v.t.Helper()
	v.Settled()
}
