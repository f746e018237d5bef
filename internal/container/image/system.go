package image

import (
	"os"
	"strings"
)

// certificates is where Go, and most other programs, look for certificates first.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// certificateFiles is where systems keep certificates; see crypto/x509/root_linux.go.
var certificateFiles = []string{
	certificates,
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
	"/opt/homebrew/etc/ca-certificates/cert.pem",
}

const (
	passwd = "root:x:0:0:root:/root:/sbin/nologin\nfiber:x:65532:65532:fiber:/tmp:/sbin/nologin\n"
	groups = "root:x:0:\nfiber:x:65532:\n"
	lookup = "passwd: files\ngroup: files\nhosts: files dns\n"
)

// system returns the files that surround the program in an image without a base.
func (x *executable) system(conf string) ([]entry, error) {
	if conf == "" {
		conf = ldConf
	}
	entries, err := findLibraries(x, conf)
	if err != nil {
		return nil, err
	}
	merged := make([]entry, 0, 2*len(entries))
	for _, e := range entries {
		// Some loaders look in /lib64, others in /usr/lib64: in the image the first is a link to the second.
		below := strings.TrimPrefix(e.path, "/usr")
		if top, _, ok := strings.Cut(below[1:], "/"); ok && strings.HasPrefix(top, "lib") {
			e.path = "/usr" + below
			merged = append(merged, entry{path: "/" + top, link: "usr/" + top})
		}
		merged = append(merged, e)
	}
	merged = append(merged,
		entry{path: "/etc/passwd", text: passwd, mode: 0o644},
		entry{path: "/etc/group", text: groups, mode: 0o644},
		entry{path: "/etc/nsswitch.conf", text: lookup, mode: 0o644},
		entry{path: "/tmp", mode: os.ModeDir | os.ModeSticky | 0o777},
		entry{path: "/var/tmp", mode: os.ModeDir | os.ModeSticky | 0o777},
	)
	if file := certificateFile(); file != "" {
		merged = append(merged, entry{path: certificates, file: file, mode: 0o644})
	}
	return merged, nil
}

// certificateFile returns the file with the certificates that this process trusts, "" if there is none.
func certificateFile() string {
	for _, file := range append([]string{os.Getenv("SSL_CERT_FILE")}, certificateFiles...) {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}
