package report

import (
	_ "embed"
	"encoding/json"
	"io"
	"strings"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
	//go:embed stream.js
	streamJS string
)

// Page writes a recording as one HTML file that needs no other.
func Page(w io.Writer, rec *Recording) error {
	data, err := json.Marshal(rec) // which has no < in it, so that no text ends its element
	if err != nil {
		return err
	}
	_, err = strings.NewReplacer("/*css*/", pageCSS, "/*js*/", pageJS+streamJS, "/*recording*/", string(data)).WriteString(w, pageHTML)
	return err
}
