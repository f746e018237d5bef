package fiber_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fiber-go/fiber"
)

func ExampleSaveState() {
	dir, err := os.MkdirTemp("", "experiment")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state")

	type experiment struct {
		Generation int
		Theta      []float64
	}
	for range 2 { // two runs, of which the second goes on where the first was
		e := experiment{Theta: make([]float64, 3)}
		if err := fiber.LoadState(path, &e); err != nil && !errors.Is(err, fs.ErrNotExist) {
			fmt.Println(err)
			return
		}
		for range 3 {
			e.Generation++
			e.Theta[0] += 0.5
			if err := fiber.SaveState(path, e); err != nil {
				fmt.Println(err)
				return
			}
		}
		fmt.Println(e)
	}
	// Output:
	// {3 [1.5 0 0]}
	// {6 [3 0 0]}
}
