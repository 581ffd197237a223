package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

type streamBody struct {
	queryBody
	ID  string `json:"id,omitempty" doc:"a name for the query, by which it can be stopped or canceled while it runs: letters, digits, _ and -, up to 64; default: one is made"`
	Cut int    `json:"cut,omitempty" doc:"cut texts of more than so many bytes; the frame says which; 0: none"`
}

var queryID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// stream answers a statement in frames, one JSON object a line: meta, progress, rows, warning, and at last done or error.
func (a *API) stream(w http.ResponseWriter, r *http.Request) error {
	var b streamBody
	if err := read(r, &b); err != nil {
		return err
	}
	req, err := a.requestOf(r, b.queryBody)
	if err != nil {
		return err
	}
	req.ID = cmp.Or(b.ID, uuid.NewString())
	switch {
	case !queryID.MatchString(req.ID):
		return millstream.Errorf(millstream.Invalid, "the id %q must be of letters, digits, _ and -, up to 64 of them", req.ID)
	case b.Cut < 0:
		return millstream.Errorf(millstream.Invalid, "cut %d is negative", b.Cut)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	f := &frames{w: w, flush: http.NewResponseController(w).Flush, req: req, cut: b.Cut}
	if req.Language == "" || req.Language == "sql" {
		f.meta.SQL = req.Statement // a search's is known when it is planned
	}
	rest := f.beat(func() query.Progress {
		p, _ := a.Queries.Progress(req.Org, req.ID) // nothing before it begins
		return p
	}, cancel)
	answer, err := a.run(ctx, req, f)
	rest()
	if err == nil {
		return gone(f.done(answer))
	}
	if !f.began {
		return err
	}
	c := callOf(r)
	c.err = errors.Join(err, c.err)
	return gone(errors.Join(f.spill(), f.write(errorFrame{"error", a.detail(c, err)})))
}

// How a stream of frames is paced.
const (
	frameRows  = 500
	frameBytes = 256 << 10              // of one frame's rows, after which the next begins
	frameEvery = 200 * time.Millisecond // between frames that tell progress
	frameAlive = 5 * time.Second        // a line is written at least as often
)

type metaFrame struct {
	Frame    string          `json:"frame"`
	ID       string          `json:"id"`
	SQL      string          `json:"sql,omitempty"`
	Columns  []query.Column  `json:"columns"` // null while they are not known
	Estimate *query.Estimate `json:"estimate,omitempty"`
}

type progressFrame struct {
	Frame string `json:"frame"`
	query.Progress
}

type warningFrame struct {
	Frame string `json:"frame"`
	Code  string `json:"code"` // partial or notice
	Text  string `json:"text"`
}

type doneFrame struct {
	Frame string `json:"frame"`
	*query.Answer
	Stopped bool `json:"stopped"`
}

type errorFrame struct {
	Frame string      `json:"frame"`
	Error errorDetail `json:"error"`
}

// frames writes an answer as frames. The query calls it, and beside the query its own beat.
type frames struct {
	w     http.ResponseWriter
	flush func() error
	req   query.Request
	cut   int

	mu     sync.Mutex // over all below
	began  bool       // something was written, so that an error can no longer be an ordinary reply
	last   time.Time  // when
	meta   metaFrame
	warned []string
	enc    *query.FrameRows
	buf    []byte // the begun frame of rows, which is written when it is long enough or has waited a beat
	rows   int
	cuts   []query.Cut
}

// Planned implements query.Watcher.
func (f *frames) Planned(p query.Planned) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.meta.SQL, f.meta.Estimate = cmp.Or(p.SQL, f.meta.SQL), &p.Estimate
	f.meta = f.metaOf(p.Columns)
	if err := f.write(f.meta); err != nil {
		return err
	}
	return f.warn("partial", p.Reasons)
}

func (f *frames) metaOf(cs []query.Column) metaFrame {
	return metaFrame{Frame: "meta", ID: f.req.ID, SQL: f.meta.SQL, Columns: cs, Estimate: f.meta.Estimate}
}

// Columns implements query.Sink. What was not known when the query was planned is told by a second meta frame.
func (f *frames) Columns(cs []query.Column) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.enc = query.NewFrameRows(cs, f.cut)
	if f.meta.Columns != nil && slices.Equal(f.meta.Columns, cs) {
		return nil
	}
	f.meta = f.metaOf(cs)
	return f.write(f.meta)
}

// Rows implements query.Sink.
func (f *frames) Rows(r *query.Rows) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range r.N {
		if f.rows == 0 {
			f.buf = append(f.buf[:0], `{"frame":"rows","rows":[`...)
		} else {
			f.buf = append(f.buf, ',')
		}
		f.buf, f.cuts = f.enc.Append(f.buf, f.cuts, r, i, f.rows)
		if f.rows++; f.rows == frameRows || len(f.buf) >= frameBytes {
			if err := f.spill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// spill writes the rows that wait.
func (f *frames) spill() error {
	if f.rows == 0 {
		return nil
	}
	f.buf = append(f.buf, ']')
	if len(f.cuts) > 0 {
		cuts, err := json.Marshal(f.cuts)
		if err != nil {
			return err
		}
		f.buf = append(append(f.buf, `,"cut":`...), cuts...)
	}
	f.buf = append(f.buf, "}\n"...)
	f.rows, f.cuts = 0, f.cuts[:0]
	return f.line(f.buf)
}

// warn writes the warnings that were not written yet.
func (f *frames) warn(code string, texts []string) error {
	for _, t := range texts {
		if slices.Contains(f.warned, t) {
			continue
		}
		f.warned = append(f.warned, t)
		if err := f.write(warningFrame{"warning", code, t}); err != nil {
			return err
		}
	}
	return nil
}

// done ends the answer. The beat must have ended.
func (f *frames) done(a *query.Answer) error {
	return errors.Join(f.spill(), f.warn("partial", a.Reasons), f.warn("notice", a.Warnings), f.write(doneFrame{"done", a, a.Stopped}))
}

func (f *frames) write(frame any) error {
	line, err := encode(frame)
	if err != nil {
		return err
	}
	return f.line(line)
}

func (f *frames) line(line []byte) error {
	if !f.began {
		h := f.w.Header()
		h.Set("Content-Type", "application/x-ndjson")
		h.Set("X-Accel-Buffering", "no") // proxies pass the lines on as they come
		f.began = true
	}
	f.last = time.Now()
	if _, err := f.w.Write(line); err != nil {
		return err
	}
	return f.flush()
}

// beat tells progress, and that the query lives, until rest is called. A client that takes no more is told to gone.
func (f *frames) beat(progress func() query.Progress, gone func()) (rest func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(frameEvery)
		defer tick.Stop()
		var told query.Progress
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				if err := f.tell(progress(), &told); err != nil {
					gone()
					return
				}
			}
		}
	}()
	return func() { close(end); <-ended }
}

// tell writes the rows that wait, and the progress if there was any or nothing else was written for long.
func (f *frames) tell(p query.Progress, told *query.Progress) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.spill(); err != nil {
		return err
	}
	now, before := p, *told
	now.ElapsedMS, before.ElapsedMS = 0, 0 // time alone is no progress
	if f.began && now == before && time.Since(f.last) < frameAlive-frameEvery {
		return nil
	}
	*told = p
	return f.write(progressFrame{"progress", p})
}
