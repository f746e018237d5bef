package tests_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/fiber-go/fiber"
)

func TestMain(m *testing.M) {
	dir, _ := os.MkdirTemp("", "x") // want `^os.MkdirTemp before fiber.Init`
	if err := fiber.Init(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
	os.Exit(m.Run())
}
