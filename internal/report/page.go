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
	//go:embed live.js
	liveJS string
)

// Page writes a recording as one HTML file that needs no other.
func Page(w io.Writer, rec *Recording) error {
	data, err := json.Marshal(rec) // which has no < in it, so that no text ends its element
	if err != nil {
		return err
	}
	const policy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">`
	_, err = strings.NewReplacer("<!--style-->", policy+"\n<style>"+pageCSS+"</style>", "<!--script-->",
		`<script type="application/json" id="data">`+string(data)+"</script>\n<script>"+pageJS+streamJS+"</script>").WriteString(w, pageHTML)
	return err
}

// File is one of those that a server has.
type File struct{ Type, Text string }

// Live returns the files of the same page, by their paths, as it is while the run goes on: it asks for /recording.
func Live() map[string]File {
	return map[string]File{
		"/": {"text/html; charset=utf-8", strings.NewReplacer("<!--style-->", `<link rel="stylesheet" href="page.css">`,
			"<!--script-->", `<script src="page.js"></script>`).Replace(pageHTML)},
		"/page.css": {"text/css; charset=utf-8", pageCSS},
		"/page.js":  {"text/javascript; charset=utf-8", pageJS + streamJS + liveJS},
	}
}
