package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
)

// SOURCE.md says where the pictures come from.
//
//go:embed digits.csv.gz
var digitsFile []byte

// picture is a handwritten digit.
type picture struct {
	pixels [pixels]float64 // 0 is white, 1 is black
	digit  int
}

// load reads the pictures.
func load() ([]picture, error) {
	z, err := gzip.NewReader(bytes.NewReader(digitsFile))
	if err != nil {
		return nil, err
	}
	lines := csv.NewReader(z)
	lines.FieldsPerRecord = pixels + 1
	records, err := lines.ReadAll()
	if err != nil {
		return nil, err
	}
	pictures := make([]picture, len(records))
	for i, fields := range records {
		for j, field := range fields {
			n, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("picture %d: %w", i, err)
			}
			if j < pixels {
				pictures[i].pixels[j] = float64(n) / 16
			} else {
				pictures[i].digit = n
			}
		}
	}
	return pictures, nil
}
