package dashboard_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/dashboard"
	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/report"
)

// recorder has one call of so many tasks.
func recorder(tasks int) *report.Recorder {
	r := report.NewRecorder(report.Info{Program: "sweep", Began: time.Now()})
	r.Add(event.Event{Time: time.Now(), What: event.CallBegan{Func: "evaluate", Tasks: tasks}})
	return r
}

// asked is a request without redirects.
func asked(t *testing.T, method, address string, change func(r *http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	require.NoError(t, err)
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(body)
}

// Nobody gets in without the token, under another name, from another page, or to change anything.
func TestNobodyGetsIn(t *testing.T) {
	t.Parallel()
	s, err := dashboard.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer s.End()
	s.Publish(recorder(7))
	in, err := url.Parse(s.URL())
	require.NoError(t, err)
	token, base := in.Query().Get("token"), "http://"+in.Host
	require.GreaterOrEqual(t, len(token), 26, "base 32: 130 bits")
	other, err := dashboard.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer other.End()
	require.NotContains(t, other.URL(), token)

	answer, _ := asked(t, "GET", s.URL(), nil)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Len(t, answer.Cookies(), 1)
	cookie := answer.Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	with := func(r *http.Request) { r.AddCookie(cookie) }

	for path, contains := range map[string]string{"/": "<title>Run</title>", "/page.css": ":root", "/page.js": "function follow", "/recording": `"Program":"sweep"`} {
		for name, x := range map[string]struct {
			method string
			change func(r *http.Request)
			want   int
		}{
			"cookie":        {"GET", with, 200},
			"HEAD":          {"HEAD", with, 200},
			"localhost":     {"GET", func(r *http.Request) { with(r); r.Host = "localhost:80" }, 200},
			"own origin":    {"GET", func(r *http.Request) { with(r); r.Header.Set("Origin", base) }, 200},
			"nothing":       {"GET", nil, 401},
			"wrong cookie":  {"GET", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: token[1:] + "A"}) }, 401},
			"wrong token":   {"GET", func(r *http.Request) { with(r); r.URL.RawQuery = "token=" + token + "A" }, 401},
			"host":          {"GET", func(r *http.Request) { with(r); r.Host = "evil.example:" + in.Port() }, 403},
			"other address": {"GET", func(r *http.Request) { with(r); r.Host = "192.0.2.7:" + in.Port() }, 403},
			"origin":        {"GET", func(r *http.Request) { with(r); r.Header.Set("Origin", "http://evil.example") }, 403},
			"other port":    {"GET", func(r *http.Request) { with(r); r.Header.Set("Origin", "http://127.0.0.1:1") }, 403},
			"POST":          {"POST", with, 405},
			"host, token":   {"GET", func(r *http.Request) { r.URL.RawQuery = "token=" + token; r.Host = "evil.example" }, 403},
		} {
			answer, body := asked(t, x.method, base+path, x.change)
			require.Equal(t, x.want, answer.StatusCode, path+" "+name)
			if x.want == 200 && x.method == "GET" {
				require.Contains(t, body, contains, path)
			} else {
				require.NotContains(t, body, contains, path)
				require.Empty(t, answer.Cookies())
			}
			for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
				require.Equal(t, want, answer.Header.Get(header), path+" "+name)
			}
			policy := answer.Header.Get("Content-Security-Policy")
			require.Contains(t, policy, "default-src 'none'")
			require.NotContains(t, policy, "unsafe")
		}
	}
	answer, _ = asked(t, "GET", base+"/run.html", with)
	require.Equal(t, 404, answer.StatusCode)
	answer, _ = asked(t, "POST", base, with)
	require.Equal(t, "GET, HEAD", answer.Header.Get("Allow"))

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := http.Client{Jar: jar}
	answer, err = client.Get(s.URL())
	require.NoError(t, err)
	answer.Body.Close()
	answer, err = client.Get(base)
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, 200, answer.StatusCode)
}

// A page that listens at all addresses is found at each of them, and not under a name that only leads there.
func TestAllAddresses(t *testing.T) {
	t.Parallel()
	s, err := dashboard.Listen("0.0.0.0:0")
	require.NoError(t, err)
	defer s.End()
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/\?token=`, s.URL())
	for host, want := range map[string]int{"127.0.0.1": 200, "192.0.2.1": 200, "[2001:db8::1]:80": 200, "localhost": 200, "evil.example": 403} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", s.URL(), nil)
		r.Host = host
		s.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, host)
	}
}

// A page with all that it needs is small.
func TestWeight(t *testing.T) {
	t.Parallel()
	sum := 0
	for _, file := range report.Live() {
		require.NotContains(t, file.Text, "<!--s")
		sum += len(file.Text)
	}
	require.Less(t, sum, 100_000)
}

// A recording comes at most once a second, and only when there is more than the page has; the last one comes at once.
func TestRecording(t *testing.T) {
	t.Parallel()
	s, err := dashboard.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer s.End()
	enter := httptest.NewRecorder()
	s.ServeHTTP(enter, httptest.NewRequest("GET", s.URL(), nil))
	synctest.Test(t, func(t *testing.T) {
		get := func(tag string, accept ...string) *httptest.ResponseRecorder {
			at, err := url.Parse(s.URL())
			require.NoError(t, err)
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "http://"+at.Host+"/recording", nil)
			r.AddCookie(enter.Result().Cookies()[0])
			r.Header.Set("If-None-Match", tag)
			r.Header.Set("Accept-Encoding", strings.Join(accept, ","))
			s.ServeHTTP(w, r)
			return w
		}
		rec, began := recorder(7), time.Now()
		s.Publish(rec)
		first := get("")
		require.Equal(t, 200, first.Code)
		require.Contains(t, first.Body.String(), `"Tasks":7`)
		require.Equal(t, "application/json", first.Header().Get("Content-Type"))
		packed := get("", "br", "gzip")
		require.Equal(t, "gzip", packed.Header().Get("Content-Encoding"))
		unpacked, err := gzip.NewReader(packed.Body)
		require.NoError(t, err)
		text, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		require.Equal(t, first.Body.String(), string(text))

		tag := first.Header().Get("ETag")
		require.Equal(t, 304, get(tag).Code, "there is no more")
		require.Equal(t, 5*time.Second, time.Since(began))
		s.Publish(rec)
		began = time.Now()
		answers := make(chan *httptest.ResponseRecorder, 3)
		for range 3 {
			go func() { answers <- get(`"2"`) }()
		}
		synctest.Wait()
		rec.Add(event.Event{Time: time.Now(), What: event.CallBegan{Call: 1, Func: "rank", Tasks: 9}})
		for len(answers) == 0 {
			s.Offer(rec)
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, time.Second, time.Since(began).Truncate(time.Second))
		synctest.Wait()
		for range 3 {
			answer := <-answers
			require.Contains(t, answer.Body.String(), `"rank"`)
			require.Equal(t, `"3"`, answer.Header().Get("ETag"))
		}
		time.Sleep(time.Minute)
		s.Offer(rec)
		go func() { answers <- get("") }() // what is known is old
		synctest.Wait()
		require.True(t, s.Asked())
		s.Offer(rec)
		synctest.Wait()
		require.Equal(t, `"4"`, (<-answers).Header().Get("ETag"))

		began = time.Now()
		go func() { answers <- get(`"4"`) }()
		synctest.Wait()
		rec.Add(event.Event{Time: time.Now(), What: event.RunEnded{}})
		s.Publish(rec)
		synctest.Wait()
		require.Contains(t, (<-answers).Body.String(), `"Ended":true`)
		require.Equal(t, 304, get(`"5"`).Code)
		require.Zero(t, time.Since(began))
	})
}

// A browser that waits is told of the end, which waits for no other one.
func TestEnd(t *testing.T) {
	t.Parallel()
	s, err := dashboard.Listen("127.0.0.1:0")
	require.NoError(t, err)
	rec := recorder(7)
	s.Publish(rec)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := http.Client{Jar: jar}
	answer, err := client.Get(s.URL())
	require.NoError(t, err)
	answer.Body.Close()
	told := make(chan string, 1)
	go func() {
		r, err := http.NewRequest("GET", "http://"+answer.Request.URL.Host+"/recording", nil)
		if err != nil {
			panic(err)
		}
		r.Header.Set("If-None-Match", `"1"`)
		answer, err := client.Do(r)
		if err != nil {
			told <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		told <- string(text)
	}()
	for !s.Asked() {
		time.Sleep(time.Millisecond)
	}
	rec.Add(event.Event{Time: time.Now(), What: event.RunEnded{}})
	s.Publish(rec)
	s.End()
	require.Contains(t, <-told, `"Ended":true`)
	_, err = client.Get(s.URL())
	require.Error(t, err)
}
