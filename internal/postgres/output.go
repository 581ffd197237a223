package postgres

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

const keptLines = 8

// output passes the server's own log on, line by line, and keeps the last lines for the error when it ends. One server process writes it through one pipe.
type output struct {
	log *slog.Logger

	mu      sync.Mutex
	partial []byte
	lines   []string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, p...)
	for {
		end := bytes.IndexByte(o.partial, '\n')
		if end < 0 {
			break
		}
		o.line(strings.TrimSpace(string(o.partial[:end])))
		o.partial = o.partial[end+1:]
	}
	if len(o.partial) > 16<<10 { // no line of the server's is that long
		o.partial = nil
	}
	return len(p), nil
}

// line handles one line. Errors and fatal ends concern one session, which gets them itself; a panic concerns the server.
func (o *output) line(text string) {
	if text == "" {
		return
	}
	if len(o.lines) == keptLines {
		o.lines = o.lines[1:]
	}
	o.lines = append(o.lines, text)
	level := slog.LevelDebug
	if severity, _, _ := strings.Cut(text, ":"); severity == "PANIC" {
		level = slog.LevelError
	}
	o.log.Log(context.Background(), level, text)
}

// last is what the server said last, on one line.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) == 0 {
		return "it said nothing"
	}
	return strings.Join(o.lines, "; ")
}
