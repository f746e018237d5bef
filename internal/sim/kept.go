package sim

import (
	"reflect"
	"strings"
)

// Kept counts what a process keeps: its connections, and the entries of all maps, slices and channels that are reached from its
// state, by the name of the field that has them. Only Fiber's own types are looked into. Other processes of the run count, too.
func (p *Process) Kept() map[string]int {
	k := keeper{seen: map[visited]bool{}, found: map[string]int{}}
	k.visit(reflect.ValueOf(&p.self.State), "State")
	k.found["other processes"] = len(p.run.others())
	n := p.run.net
	n.mu.Lock()
	defer n.mu.Unlock()
	k.found["connections"] = len(n.ends(func(c *conn) bool { return c.owner == p }))
	return k.found
}

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
		k.found[name] += v.Len()
		if kind := v.Type().Elem().Kind(); kind < reflect.Bool || kind > reflect.Complex128 {
			for i := range v.Len() {
				k.visit(v.Index(i), name)
			}
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
