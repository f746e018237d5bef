package tree

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
	"sync"
)

// Build identifies the content of the running executable: by the Go linker's
// build id, which ends in a hash of the output, or by a hash of the file if the id
// was stripped.
var Build = sync.OnceValue(func() string {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		path, err := os.Executable()
		if err != nil {
			return "unknown"
		}
		if f, err = os.Open(path); err != nil {
			return "unknown"
		}
	}
	defer f.Close()
	if id := elfBuildID(f); id != "" {
		return id
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "unknown"
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
})

// elfBuildID reads the note that the Go linker writes (name "Go", type 4), "" if
// there is none.
func elfBuildID(f io.ReaderAt) string {
	file, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, prog := range file.Progs {
		if prog.Type != elf.PT_NOTE || prog.Filesz > 1<<16 {
			continue
		}
		note := make([]byte, prog.Filesz)
		if _, err := prog.ReadAt(note, 0); err != nil {
			continue
		}
		for len(note) >= 16 {
			nameLen, descLen := int(file.ByteOrder.Uint32(note)), int(file.ByteOrder.Uint32(note[4:]))
			kind := file.ByteOrder.Uint32(note[8:])
			descAt := 12 + (nameLen+3)&^3
			end := descAt + (descLen+3)&^3
			if nameLen < 0 || descLen < 0 || descAt > len(note) || end > len(note) || descAt+descLen > len(note) {
				break
			}
			if kind == 4 && bytes.Equal(note[12:12+nameLen], []byte("Go\x00\x00")) {
				return string(note[descAt : descAt+descLen])
			}
			note = note[end:]
		}
	}
	return ""
}
