package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/fiber-go/fiber/internal/report"
)

type reportCommand struct {
	Path string `arg:"" help:"The recording, or the page that FIBER_REPORT named."`
	Out  string `short:"o" placeholder:"FILE" help:"Where the page goes, instead of to the recording's side."`
}

func (c *reportCommand) Run() error {
	page := strings.TrimSuffix(c.Path, report.Suffix)
	f, err := os.Open(page + report.Suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; a run that ends by itself makes its page and leaves no recording", err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	rec, err := report.ReadJSON(f)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if c.Out == "" {
		c.Out = page
	}
	if err := report.Save(c.Out, func(w io.Writer) error { return report.Page(w, rec) }); err != nil {
		return err
	}
	fmt.Println(c.Out)
	return nil
}
