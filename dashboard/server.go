package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/report"
)

const (
	pace       = time.Second     // between two recordings that are handed out
	largePace  = 2 * time.Second // between large ones
	large      = 1 << 20         // bytes
	longest    = 5 * time.Second // how long a request waits for news
	lastAnswer = time.Second     // how long the end of the run waits for a browser that is being told of it
)

// server serves the page of a run that goes on. The goroutine that has the recorder hands out recordings; a request for one waits for that.
type server struct {
	http   http.Server
	host   string // as it is configured
	at     *net.TCPAddr
	token  string
	files  map[string]report.File
	served chan struct{} // closed when the server has ended

	now       atomic.Pointer[snapshot]
	asked     atomic.Bool  // a request waits for the next one
	answering sync.RWMutex // held for reading by those who are sent a recording
}

// snapshot is a recording, encoded.
type snapshot struct {
	number int
	made   time.Time
	last   bool
	json   []byte
	gzip   func() []byte
	next   chan struct{} // closed when there is a later one
}

// listen begins to serve the page at an address.
func listen(address string) (*server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address)
	s := &server{host: host, at: l.Addr().(*net.TCPAddr), token: rand.Text(), files: report.Live(), served: make(chan struct{})}
	s.now.Store(&snapshot{next: make(chan struct{})})
	s.http = http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(s.served)
		s.http.Serve(l)
	}()
	return s, nil
}

// url returns the address that lets a browser in.
func (s *server) url() string {
	host := s.host
	switch {
	case s.at.IP.IsUnspecified():
		host = "127.0.0.1"
	case host == "localhost": // another program may have that name's other address
		host = s.at.IP.String()
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(s.at.Port)) + "/?token=" + s.token
}

// offer hands out a new recording, if a request waits for it and the one before is old enough.
func (s *server) offer(r *report.Recorder) {
	if s != nil && s.asked.Load() && !s.now.Load().fresh() {
		s.publish(r)
	}
}

// publish hands out what is known.
func (s *server) publish(r *report.Recorder) {
	var b bytes.Buffer
	rec := r.Recording()
	rec.WriteJSON(&b) // it has nothing that JSON lacks
	old := s.now.Load()
	s.asked.Store(false)
	s.now.Store(&snapshot{old.number + 1, time.Now(), rec.Ended, b.Bytes(), sync.OnceValue(func() []byte { return compressed(b.Bytes()) }), make(chan struct{})})
	close(old.next)
}

func compressed(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

// fresh reports whether it is too early for another one.
func (s *snapshot) fresh() bool {
	if s.last {
		return true
	}
	if len(s.json) > large {
		return time.Since(s.made) < largePace
	}
	return time.Since(s.made) < pace
}

// end ends the server, once those who are being sent a recording have it.
func (s *server) end() {
	if s == nil {
		return
	}
	answered := make(chan struct{})
	go func() {
		s.answering.Lock()
		close(answered)
		s.answering.Unlock()
	}()
	select {
	case <-answered:
	case <-time.After(lastAnswer):
	}
	s.http.Close()
	<-s.served
}

// headers are those of all answers. Nothing of a page comes from elsewhere, or shows it in a frame.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Content-Type":                 "text/plain; charset=utf-8",
}

// enter leads to the page itself. A redirect would not do: a browser that comes from elsewhere, from a file for example, follows that
// without a cookie that is SameSite=Strict.
const enter = `<!doctype html><meta http-equiv="refresh" content="0; url=/"><a href="/">The page of the run</a>`

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	refuse := func(code int, why string) {
		w.WriteHeader(code)
		io.WriteString(w, why+"\n")
	}
	origin, given := r.Header.Get("Origin"), r.URL.Query().Get("token")
	file, found := s.files[r.URL.Path]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(http.StatusMethodNotAllowed, "This page is only for reading.")
	case !s.known(r.Host), origin != "" && origin != "http://"+r.Host:
		refuse(http.StatusForbidden, "This page has another address: open the one that the program has printed.")
	case given != "" && s.right(given):
		http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: s.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, enter)
	case given != "", !s.admits(r):
		refuse(http.StatusUnauthorized, "This page needs the token of the run: open the address that the program has printed.")
	case r.URL.Path == "/recording":
		s.recording(w, r)
	case !found:
		refuse(http.StatusNotFound, "There is no such page.")
	default:
		w.Header().Set("Content-Type", file.Type)
		io.WriteString(w, file.Text)
	}
}

// known reports whether a request names this server, as a page of another one that has had its name lead here does not. The port
// is not looked at: it may be forwarded from another one, at an address of that machine alone.
func (s *server) known(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || strings.EqualFold(host, s.host) || ip != nil && (ip.IsLoopback() || s.at.IP.IsUnspecified() || s.at.IP.Equal(ip))
}

func (s *server) right(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1
}

// cookie is its name. Programs on one machine share cookies, whatever their ports, and ports may be forwarded.
func (s *server) cookie() string { return fmt.Sprintf("fiber-%x", sha256.Sum256([]byte(s.token)))[:14] }

func (s *server) admits(r *http.Request) bool {
	c, err := r.Cookie(s.cookie())
	return err == nil && s.right(c.Value)
}

// recording sends what is known when it is not what the page has, and not old.
func (s *server) recording(w http.ResponseWriter, r *http.Request) {
	s.answering.RLock()
	defer s.answering.RUnlock()
	now, has := s.now.Load(), r.Header.Get("If-None-Match")
	if has == now.tag() && !now.last || !now.fresh() {
		s.asked.Store(true)
		timer := time.NewTimer(longest)
		defer timer.Stop()
		select {
		case <-now.next:
			now = s.now.Load()
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("ETag", now.tag())
	if has == now.tag() {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	data := now.json
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		data = now.gzip()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data))) // so that it is complete when it is flushed
	w.Write(data)
	http.NewResponseController(w).Flush()
}

func (s *snapshot) tag() string { return `"` + strconv.Itoa(s.number) + `"` }
