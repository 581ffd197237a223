// Package loki decodes the bodies of Loki's push call, JSON and snappy protobuf, without Loki's code. Each line becomes a record: the line is the field message,
// the labels of its stream and its structured metadata are fields by their names.
package loki

import (
	"fmt"
	"io"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/decode/scan"
)

// The media types of a push. Loki takes a body of no type as protobuf.
const (
	typeJSON     = "application/json"
	typeProtobuf = "application/x-protobuf"
)

// mediaType is one of the two types, or an error of kind Unsupported.
func mediaType(contentType string) (string, error) {
	if contentType == "" {
		return typeProtobuf, nil
	}
	switch t, _, err := mime.ParseMediaType(contentType); {
	case err == nil && (t == typeJSON || t == typeProtobuf):
		return t, nil
	case err == nil && t == "application/protobuf":
		return typeProtobuf, nil
	}
	return "", millstream.Errorf(millstream.Unsupported, "Content-Type: %.100q, want application/json or application/x-protobuf", contentType)
}

// Body reads a push's body. A protobuf body is one snappy block, whether the content encoding says so or says nothing; a JSON body is encoded as it says.
func Body(r io.Reader, contentType, encoding string, l decode.Limits) ([]byte, error) {
	t, err := mediaType(contentType)
	if err != nil {
		return nil, err
	}
	if t == typeProtobuf && encoding == "" {
		encoding = "snappy"
	}
	return decode.Body(r, encoding, l)
}

// Decode reads a push whose encoding Body has undone into one batch of logs for the named stream. A body of the wrong shape is Invalid as a whole, as with Loki;
// a line that breaks a limit is rejected alone. Times are nanoseconds, whatever their magnitude.
func Decode(stream, contentType string, body []byte, now time.Time, l decode.Limits) (decode.Result, error) {
	if err := decode.CheckStream(stream); err != nil {
		return decode.Result{}, err
	}
	t, err := mediaType(contentType)
	if err != nil {
		return decode.Result{}, err
	}
	p := push{b: millstream.NewBuilder(l.Limits), window: l.Window(now), size: len(body)}
	if t == typeJSON {
		err = p.json(body)
	} else {
		err = p.protobuf(body)
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		return decode.Result{}, err
	}
	if batch := p.b.Batch(); batch != nil {
		batch.Signal, batch.Name = millstream.Logs, stream
		p.result.Add(batch)
	}
	return p.result, nil
}

// ErrorText is what Loki answers, with status 400, when entries were left out; "" if none were. What was accepted stays accepted.
func ErrorText(r decode.Result) string {
	if r.Rejected == 0 {
		return ""
	}
	var b strings.Builder
	for _, e := range r.Errors {
		fmt.Fprintf(&b, "entry %d ignored, reason: '%s',\n", e.Index, e.Reason)
	}
	fmt.Fprintf(&b, "total ignored: %d out of %d", r.Rejected, r.Rejected+r.Accepted)
	return b.String()
}

var messageName = []byte("message")

// push collects the entries of a request.
type push struct {
	b      *millstream.Builder
	window decode.Window
	result decode.Result
	labels pairs  // of the stream that is being read
	meta   pairs  // of the entry that is being read
	valid  []byte // a line that was mended
	index  int    // of the current entry
	size   int    // of the body
	err    error  // why no more entries are taken
}

// pairs are names and values in one piece of memory that is used again and again.
type pairs struct {
	text []byte
	ends []int // of each name and each value, in turn
}

func (p *pairs) reset() { p.text, p.ends = p.text[:0], p.ends[:0] }

// add appends a name or a value.
func (p *pairs) add(s []byte) {
	p.text = scan.AppendValid(p.text, s)
	p.ends = append(p.ends, len(p.text))
}

// set sets the pairs in the current record; what comes after a failure is not of interest.
func (p *pairs) set(b *millstream.Builder) {
	start := 0
	for i := 0; i+1 < len(p.ends) && b.Err() == nil; i += 2 {
		name, value := p.text[start:p.ends[i]], p.text[p.ends[i]:p.ends[i+1]]
		if start = p.ends[i+1]; len(name) > 0 {
			b.String(name, value)
		}
	}
}

// entry adds an entry with the labels and metadata that were read. The line comes last, so that no label of its name replaces it. at is how far the body was read.
// It returns false if no more entries are taken.
func (p *push) entry(ns int64, line []byte, at int) bool {
	p.labels.set(p.b)
	p.meta.set(p.b)
	p.meta.reset()
	if !utf8.Valid(line) {
		p.valid = scan.AppendValid(p.valid[:0], line)
		line = p.valid
	}
	p.b.String(messageName, line)
	index := p.index
	p.index++
	if reason := p.window.Check(ns); reason != "" {
		p.b.Abort()
		p.result.Reject(index, millstream.TimestampField, reason)
		return true
	}
	field := p.b.Failed()
	switch err := p.b.Commit(ns); {
	case millstream.EndsRequest(err):
		p.err = err
		return false
	case err != nil:
		p.result.Reject(index, field, millstream.Message(err))
	case p.b.Rows() == sampleRows: // the rest will be like this
		p.b.Reserve(int(int64(p.size)*sampleRows/int64(max(at, 1))) + sampleRows)
	}
	return true
}

const sampleRows = 32
