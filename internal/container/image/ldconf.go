package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ldConf lists directories with libraries for the linker.
const ldConf = "/etc/ld.so.conf"

// ldDirs returns the directories that a ld.so.conf and the files that it includes name, in their order. Like ldconfig, it
// skips files that do not exist or cannot be read.
func ldDirs(file string) []string {
	var dirs []string
	readLdConf(file, map[string]bool{}, &dirs)
	return dirs
}

func readLdConf(file string, seen map[string]bool, dirs *[]string) {
	text, err := os.ReadFile(file)
	if err != nil || seen[file] {
		return
	}
	seen[file] = true
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n:,", r) })
		switch {
		case len(words) > 1 && words[0] == "include":
			for _, pattern := range words[1:] {
				if !filepath.IsAbs(pattern) {
					pattern = filepath.Join(filepath.Dir(file), pattern)
				}
				more, _ := filepath.Glob(pattern) // a bad pattern matches nothing
				slices.Sort(more)
				for _, f := range more {
					readLdConf(f, seen, dirs)
				}
			}
		case len(words) > 0 && words[0] == "hwcap":
		default:
			for _, word := range words {
				dir, _, _ := strings.Cut(word, "=") // dir=TYPE, as libc5 had it
				if filepath.IsAbs(dir) {
					*dirs = append(*dirs, filepath.Clean(dir))
				}
			}
		}
	}
}
