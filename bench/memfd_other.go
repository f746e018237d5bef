//go:build unix && !linux

package main

import (
	"errors"
	"os"
)

func memoryFile() (*os.File, error) { return nil, errors.ErrUnsupported }
