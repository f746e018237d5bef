//go:build unix

package config

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// trusted returns an error if somebody else may have written a file in dir, and a warning if its group may.
func trusted(f *os.File, dir string) (warning string, err error) {
	file, err := f.Stat()
	if err != nil {
		return "", err
	}
	folder, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	owner := int(file.Sys().(*syscall.Stat_t).Uid)
	what := fmt.Sprintf("it belongs to %s and has mode %v", userName(owner), file.Mode().Perm())
	switch {
	case owner != 0 && owner != os.Geteuid():
		return "", fmt.Errorf("%s, and is not read: its owner is neither this user nor root", what)
	case file.Mode()&0o002 != 0:
		return "", fmt.Errorf("%s, and is not read: anybody may write it", what)
	case folder.Mode()&0o002 != 0 && folder.Mode()&os.ModeSticky == 0:
		return "", fmt.Errorf("%s, and is not read: anybody may replace it, since %s has mode %v", what, dir, folder.Mode())
	case file.Mode()&0o020 != 0:
		return fmt.Sprintf("%s: %s: its group may write it", f.Name(), what), nil
	}
	return "", nil
}

func userName(id int) string {
	number := strconv.Itoa(id)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return "the user " + number
}
