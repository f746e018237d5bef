package wire

import (
	"reflect"
	"time"

	"github.com/fiber-go/fiber/event"
)

// Observe tells a process whether what happens in it, and in those below, is to be sent to the parent.
type Observe struct{ On bool }

// Events are what has happened in a process, or in those below.
type Events struct{ List []Event }

// Event is an event.Event. Of the fields behind the first two, one is set.
type Event struct {
	Time    time.Time
	Process string

	CallBegan      *event.CallBegan
	CallEnded      *event.CallEnded
	Tasks          *event.Tasks
	WorkerStarting *event.WorkerStarting
	WorkerReady    *event.WorkerReady
	WorkerEnded    *event.WorkerEnded
	ProcessStarted *event.ProcessStarted
	ProcessStatus  *event.ProcessStatus
	ProcessEnded   *event.ProcessEnded
	Waiting        *event.Waiting
	Objects        *event.Objects
	Log            *event.Log
	Missed         *event.Missed
}

// eventFields are the fields of an Event by what they point to.
var eventFields = func() map[reflect.Type]int {
	all := map[reflect.Type]int{}
	for f := range reflect.TypeFor[Event]().Fields() {
		if f.Type.Kind() == reflect.Pointer {
			all[f.Type.Elem()] = f.Index[0]
		}
	}
	return all
}()

// PackEvents makes the message. Events that have no field are left out.
func PackEvents(list []event.Event) [][]byte {
	var m Events
	for _, e := range list {
		if i, ok := eventFields[reflect.TypeOf(e.What)]; ok {
			one := Event{Time: e.Time, Process: e.Process}
			field := reflect.ValueOf(&one).Elem().Field(i)
			field.Set(reflect.New(field.Type().Elem()))
			field.Elem().Set(reflect.ValueOf(e.What))
			m.List = append(m.List, one)
		}
	}
	return MustPack(KindEvents, m)
}

// UnpackEvents decodes the message.
func UnpackEvents(frames [][]byte) (list []event.Event, err error) {
	var m Events
	if err := Unpack(frames, &m); err != nil {
		return nil, err
	}
	for i := range m.List {
		e := event.Event{Time: m.List[i].Time, Process: m.List[i].Process}
		for _, n := range eventFields {
			if field := reflect.ValueOf(&m.List[i]).Elem().Field(n); !field.IsNil() {
				e.What = field.Elem().Interface().(event.What)
			}
		}
		if t, ok := e.What.(event.Tasks); e.What == nil || ok && (t.Count < 1 || min(t.Failed, t.Again) < 0 || min(t.Took, t.Longest) < 0) {
			return nil, ErrMalformed
		}
		list = append(list, e)
	}
	return list, nil
}
