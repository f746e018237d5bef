package wire

// Error is an error on its way between processes: what a function returned,
// flattened, with what errors.Is and errors.As are to find again.
type Error struct {
	Func     string
	Worker   string
	Message  string
	Stack    string   // of a panic
	Panic    bool     //
	Matches  []string // names of the registered sentinels that it is
	Canceled bool     // is context.Canceled
	Deadline bool     // is context.DeadlineExceeded
	Closed   bool     // is fiber.ErrClosed
	Kind     string   // the type of Fiber's own that it wraps, "" for none
	Detail   string   // that error's fields, msgpack
}

// Error is the message alone; the root package makes a RemoteError of it.
func (e *Error) Error() string { return e.Message }
