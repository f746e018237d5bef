package tree

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"os"
	"runtime"
	"sync"
)

// Build identifies the content of the running executable: by the Go linker's
// build id, which ends in a hash of the output, or by a hash of the file if the id
// was stripped.
var Build = sync.OnceValue(func() string {
	path := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		path, _ = os.Executable()
	}
	if id := elfBuildID(path); id != "" {
		return id
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16])
})

// elfBuildID reads the note that the Go linker writes, "" if there is none.
func elfBuildID(path string) string {
	file, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	section := file.Section(".note.go.buildid")
	if section == nil {
		return ""
	}
	note, err := section.Data()
	if err != nil || len(note) < noteHeader {
		return ""
	}
	return string(note[noteHeader:])
}

// noteHeader is the length of three numbers and the name "Go", which precede the
// id.
const noteHeader = 16
