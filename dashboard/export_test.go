package dashboard

import (
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/report"
)

// Settings, Start, Listen and what servers do are for tests.
type Settings = observe.Settings

var (
	Start  = start
	Listen = listen
)

func (s *server) URL() string                { return s.url() }
func (s *server) Asked() bool                { return s.asked.Load() }
func (s *server) Offer(r *report.Recorder)   { s.offer(r) }
func (s *server) Publish(r *report.Recorder) { s.publish(r) }
func (s *server) End()                       { s.end() }
