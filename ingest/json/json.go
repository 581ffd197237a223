// Package json decodes the bodies of JSON intake: one array of records, one record, or NDJSON. What a record becomes is described at scan.Records.
package json

import (
	"bytes"
	"fmt"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/decode/scan"
)

// Decode reads the records of a body into one batch of logs for the named stream.
//
// A body that begins with a bracket is one array of records; if it is malformed anywhere, all of it is refused as Invalid with the position. Any other body is a
// sequence of records that each end with their line; a record may span lines, as a printed document does. A malformed record is rejected and the next line tried,
// so it never costs its neighbours; but a first record that goes wrong beyond its first line is taken for a malformed document and refused as a whole.
// An empty body is Invalid. TooLarge: the records have too many different fields for one request.
func Decode(stream string, body []byte, now time.Time, l decode.Limits) (decode.Result, error) {
	if err := decode.CheckStream(stream); err != nil {
		return decode.Result{}, err
	}
	start := 0
	if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) { // a byte order mark
		start = 3
	}
	d := decoder{Records: scan.NewRecords(body, now, l), b: millstream.NewBuilder(l.Limits)}
	var err error
	switch i := d.Space(start); {
	case i == len(body):
		return decode.Result{}, millstream.Errorf(millstream.Invalid, "the body is empty: send a JSON array, an object or NDJSON")
	case body[i] == '[':
		err = d.array(i)
	default:
		err = d.lines(i)
	}
	if err != nil {
		return decode.Result{}, err
	}
	if batch := d.b.Batch(); batch != nil {
		batch.Signal, batch.Name = millstream.Logs, stream
		d.result.Add(batch)
	}
	return d.result, nil
}

type decoder struct {
	*scan.Records
	b      *millstream.Builder
	result decode.Result
	index  int   // of the current record
	err    error // why the whole request is refused
	wasted int   // bytes behind their own line that malformed records were read on to
}

// maxWasted is how many bytes may be read twice because lines that were cut off ran into the next ones. Beyond that a record ends with its line, so that no
// body costs more than a few readings of it.
const maxWasted = 1 << 20

// array reads the elements of the array at i.
func (d *decoder) array(i int) error {
	end := d.Array(i, func(i int) int {
		if i = d.Read(i, d.b); i < 0 || !d.commit(i) {
			return -1
		}
		return i
	})
	if d.err != nil {
		return d.err
	}
	if end >= 0 {
		if end = d.Space(end); end < len(d.Data) {
			end = d.Fail(end, "something follows the array")
		}
	}
	if end < 0 {
		return d.Err()
	}
	return nil
}

// lines reads records that each end with their line.
func (d *decoder) lines(i int) error {
	for ; i < len(d.Data); i = d.Space(i) {
		end := d.read(i)
		if end >= 0 && !d.atLineEnd(end) {
			d.Drop()
			end = d.Fail(end, "something follows the record on its line")
		}
		if end >= 0 {
			if !d.commit(end) {
				return d.err
			}
			i = end
			continue
		}
		next, ok := d.recover(i)
		if !ok {
			return d.Err()
		}
		at, msg := d.Failure()
		d.result.Reject(d.index, "", fmt.Sprintf("malformed JSON at byte %d: %s", at, msg))
		d.index++
		i = next
	}
	return nil
}

// read reads the record at i, but not beyond its line if too much was wasted by that.
func (d *decoder) read(i int) int {
	if d.wasted <= maxWasted {
		return d.Read(i, d.b)
	}
	body := d.Data
	d.Data = body[:d.nextLine(i)]
	end := d.Read(i, d.b)
	d.Data = body
	return end
}

func (d *decoder) atLineEnd(i int) bool {
	for ; i < len(d.Data); i++ {
		switch d.Data[i] {
		case ' ', '\t', '\r':
		default:
			return d.Data[i] == '\n'
		}
	}
	return true
}

// recover finds where to go on after the malformed record at i. If it went wrong in its own line, or was cut off and the next line begins an object, that is the
// next line. If it went wrong further on, it spanned lines, and the next record is the next object at the beginning of a line; without any, a first record was
// a malformed document.
func (d *decoder) recover(i int) (next int, ok bool) {
	at, _ := d.Failure()
	next = d.nextLine(i)
	d.wasted += max(0, at-next)
	if k := d.Space(next); at < next || k == len(d.Data) || d.Data[k] == '{' {
		return next, true
	}
	if n := bytes.Index(d.Data[next:], []byte("\n{")); n >= 0 {
		return next + n + 1, true
	}
	return len(d.Data), d.index > 0
}

func (d *decoder) nextLine(i int) int {
	if n := bytes.IndexByte(d.Data[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(d.Data)
}

// sampleRows is after how many records the rest of the body is taken to be like them.
const sampleRows = 32

// commit ends the record that was read up to end; false: the whole request is refused.
func (d *decoder) commit(end int) bool {
	field, reason, err := d.Commit()
	if err != nil {
		d.err = err
		return false
	}
	if reason != "" {
		d.result.Reject(d.index, field, reason)
	}
	if d.index++; d.b.Rows() == sampleRows && reason == "" {
		d.b.Reserve(int(int64(len(d.Data))*sampleRows/int64(end)) + sampleRows)
	}
	return true
}
