package sim

import (
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// Bytes begins the names of what is counted in bytes.
const Bytes = "bytes of "

// Kept counts what a process keeps: its connections, and the entries of all maps, slices and channels that are reached from its
// state, by the name of the field that has them. Only Fiber's own types are looked into. Other processes of the run count, too.
// It takes no locks: it returns nil where goroutines run at the same time, or the race detector looks on.
func (p *Process) Kept() map[string]int {
	if p.run.Threads > 1 || raced() {
		return nil
	}
	k := keeper{seen: map[visited]bool{}, found: map[string]int{}}
	k.visit(reflect.ValueOf(&p.self.State), "State")
	k.found["other processes"] = len(p.run.others())
	n := p.run.net
	n.mu.Lock()
	defer n.mu.Unlock()
	k.found["connections"] = len(n.ends(func(c *conn) bool { return c.owner == p }))
	return k.found
}

// raced says whether the race detector looks on.
var raced = sync.OnceValue(func() bool {
	info, _ := debug.ReadBuildInfo()
	return info == nil || slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
})

// keeper goes through what a process keeps.
type keeper struct {
	seen  map[visited]bool
	found map[string]int
}

type visited struct {
	at uintptr
	of reflect.Type
}

// ours is where the types are that a keeper looks into, unless they are of tests, as this one.
const ours = "github.com/fiber-go/fiber"

var theSim = reflect.TypeFor[keeper]()

func (k *keeper) visit(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Interface:
		k.visit(v.Elem(), name)
	case reflect.Pointer:
		if at := (visited{v.Pointer(), v.Type()}); !v.IsNil() && !k.seen[at] {
			k.seen[at] = true
			k.visit(v.Elem(), name)
		}
	case reflect.Map:
		k.found[name] += v.Len()
		for entry := v.MapRange(); entry.Next(); {
			k.visit(entry.Key(), name)
			k.visit(entry.Value(), name)
		}
	case reflect.Chan:
		k.found[name] += v.Len()
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			k.found[Bytes+name] += v.Len()
			return
		}
		k.found[name] += v.Len()
		for i := range v.Len() {
			k.visit(v.Index(i), name)
		}
	case reflect.Struct:
		t := v.Type()
		if strings.HasPrefix(t.Name(), "Pointer[") && t.PkgPath() == "sync/atomic" {
			// Its first field says what it points to.
			if p := v.FieldByName("v").UnsafePointer(); p != nil {
				k.visit(reflect.NewAt(t.Field(0).Type.Elem().Elem(), p), name)
			}
		}
		if path := t.PkgPath(); !strings.HasPrefix(path, ours) || path == theSim.PkgPath() || strings.HasPrefix(path, ours+"/test") {
			return
		}
		owner, _, _ := strings.Cut(t.String(), "[")
		for i := range v.NumField() {
			k.visit(v.Field(i), owner+"."+t.Field(i).Name)
		}
	}
}
