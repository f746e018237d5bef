package image

import "os"

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
func (x *executable) system() ([]entry, error) {
	entries, err := x.libraries()
	if err != nil {
		return nil, err
	}
	entries = append(entries,
		entry{path: "/etc/passwd", text: passwd, mode: 0o644},
		entry{path: "/etc/group", text: groups, mode: 0o644},
		entry{path: "/etc/nsswitch.conf", text: lookup, mode: 0o644},
		entry{path: "/tmp/", mode: 0o1777},
		entry{path: "/var/tmp/", mode: 0o1777},
	)
	if file := certificateFile(); file != "" {
		entries = append(entries, entry{path: certificates, file: file, mode: 0o644})
	}
	return entries, nil
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
