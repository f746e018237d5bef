package codec

import (
	"encoding/binary"
	"reflect"
	"sync"
	"time"
)

// timePlan keeps the zone: its offset, which msgpack's own timestamps lose, and
// the names of the zone and the location, which time's own encoding loses.
var timePlan = plan{
	encode: func(e *encoder, v reflect.Value) error {
		b, err := appendTime(nil, v.Interface().(time.Time))
		if err != nil {
			return own(timeType, err)
		}
		return e.extension(timeType, extTime, b)
	},
	decode: func(d *decoder, v reflect.Value) error {
		b, err := d.content(timeType, extTime)
		if err != nil {
			return err
		}
		t, err := decodeTime(b)
		v.Set(reflect.ValueOf(t))
		return err
	},
}

const plainTime = 15 // bytes

// appendTime writes time's own encoding of the instant in UTC and then, unless
// the time is in UTC, its zone: the offset, the length of the zone's name, the
// name, and the name of the location if that has more zones. (Time's own
// encoding does not restore an offset with seconds.)
func appendTime(b []byte, t time.Time) ([]byte, error) {
	b, err := t.UTC().AppendBinary(b)
	if err != nil || t.Location() == time.UTC {
		return b, err
	}
	name, offset := t.Zone()
	b = binary.AppendVarint(b, int64(offset))
	b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
	if start, end := t.ZoneBounds(); !start.IsZero() || !end.IsZero() || t.Location() == time.Local {
		b = append(b, t.Location().String()...)
	}
	return b, nil
}

// decodeTime reads what appendTime wrote.
func decodeTime(b []byte) (t time.Time, err error) {
	zone := b[min(plainTime, len(b)):]
	if err := t.UnmarshalBinary(b[:len(b)-len(zone)]); err != nil {
		return t, own(timeType, err)
	}
	if len(zone) == 0 {
		return t, nil
	}
	offset, n := binary.Varint(zone)
	zone = zone[max(n, 0):]
	length, m := binary.Uvarint(zone)
	zone = zone[max(m, 0):]
	if n <= 0 || m <= 0 || length > uint64(len(zone)) || int64(int32(offset)) != offset {
		return t, fail(timeType, "its zone is malformed")
	}
	name, location := string(zone[:length]), string(zone[length:])
	if l := locationOf(location); l != nil {
		if there, o := t.In(l).Zone(); there == name && o == int(offset) {
			return t.In(l), nil
		}
	}
	return t.In(time.FixedZone(name, int(offset))), nil
}

// locations holds the locations that this process has looked up, by name.
var locations sync.Map

// locationOf returns a location by its name, nil if it is not known here.
func locationOf(name string) *time.Location {
	if l, ok := locations.Load(name); ok {
		return l.(*time.Location)
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	if l != time.Local { // which a program may set
		locations.Store(name, l)
	}
	return l
}
