// Package elastic decodes the bodies of Elasticsearch's _bulk call and makes the replies that its clients expect. Documents become records as described at
// scan.Records.
package elastic

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/decode/scan"
)

// IndexField keeps the name of the index as it was sent, if the stream has another.
const IndexField = "_index"

// A request may name so many indexes and hold so many actions, because each costs memory of its own and the reply has an item for each.
const (
	maxStreams = 1000
	maxActions = 500_000
)

// Bulk is what a _bulk body held: the accepted documents by stream, and an item per action for the reply.
type Bulk struct {
	decode.Result
	items []item
	ids   []byte // the ids that were sent, one after the other
	now   time.Time
}

// item is the outcome of one action.
type item struct {
	target *target
	fault  *fault // nil: the document was accepted
	id     int32  // where its id ends in Bulk.ids
	op     op
}

// fault is why an action was refused. All such faults are the sender's: status 400.
type fault struct{ kind, reason string }

type op uint8

const (
	opIndex op = iota
	opCreate
	opUpdate
	opDelete
)

var opNames = [...]string{"index", "create", "update", "delete"}

// The types of error that Elasticsearch's clients know.
const (
	faultArgument = "illegal_argument_exception"
	faultDocument = "mapper_parsing_exception"
	faultIndex    = "invalid_index_name_exception"
	faultRequest  = "action_request_validation_exception"
)

// Decode reads a _bulk body: lines of actions, each index and create followed by a line with its document. index is the one of the path and may be empty.
//
// Every action gets an item, in order. index and create store the document; update and delete are refused, since records never change. A document that is
// malformed or breaks a limit is refused alone. A malformed action line makes all of the body Invalid, and nothing of it is accepted, because what follows cannot
// be told apart. Blank lines, CR LF and a missing last line end are taken as they are.
func Decode(index string, body []byte, now time.Time, l decode.Limits) (*Bulk, error) {
	d := decoder{Records: scan.NewRecords(body, now, l), out: &Bulk{now: now}, limits: l.Limits, index: index, targets: map[string]*target{}, streams: map[string]*stream{}}
	i := d.Space(0)
	if i == len(body) {
		return nil, millstream.Errorf(millstream.Invalid, "request body is required")
	}
	for i >= 0 && i < len(body) {
		i = d.action(i)
	}
	if d.err != nil {
		return nil, d.err
	}
	for _, t := range d.order {
		if b := t.builder.Batch(); b != nil {
			b.Signal, b.Name = millstream.Logs, t.stream
			d.out.Add(b)
		}
	}
	return d.out, nil
}

type decoder struct {
	*scan.Records
	out     *Bulk
	limits  millstream.Limits
	index   string // the default
	targets map[string]*target
	streams map[string]*stream
	order   []*stream // the streams as they came
	last    *target
	err     error

	// the action that is being read
	op    op
	named bool
	name  []byte
	id    []byte
}

// target is an index name that was seen.
type target struct {
	index  string
	stream *stream // nil: the name is no good
	mapped bool    // the stream has another name
	fault  *fault
}

// stream is a stream that documents go to.
type stream struct {
	stream  string
	builder *millstream.Builder
}

// sampleRows is after how many documents the rest of the body is taken to be like them.
const sampleRows = 32

// action reads the action line at i and the document that belongs to it, and returns where the next line begins, or -1.
func (d *decoder) action(i int) int {
	end := d.lineEnd(i)
	if reason := d.readAction(i, end); reason != "" {
		return d.refuseAll(millstream.Invalid, i, "Malformed action/metadata line [%d], %s", d.lineNumber(i), reason)
	}
	if len(d.out.items) == maxActions {
		return d.refuseAll(millstream.TooLarge, i, "the request has more than %d actions: send smaller batches", maxActions)
	}
	it := item{op: d.op, target: d.target()}
	d.out.ids = append(d.out.ids, d.id...)
	it.id = int32(len(d.out.ids))
	next := d.Space(end)
	if d.op == opDelete {
		it.fault = &fault{faultArgument, "delete is not supported: records never change; use the stream's retention"}
	} else {
		if next == len(d.Data) {
			return d.refuseAll(millstream.Invalid, i, "the action on line [%d] has no document", d.lineNumber(i))
		}
		end = d.lineEnd(next)
		it.fault = d.document(it.target, next, end)
		next = d.Space(end)
	}
	if it.fault != nil {
		d.out.Reject(len(d.out.items), "", it.fault.reason)
	}
	d.out.items = append(d.out.items, it)
	if d.err != nil {
		return -1
	}
	return next
}

// refuseAll refuses the whole request.
func (d *decoder) refuseAll(k millstream.Kind, i int, format string, args ...any) int {
	d.err = &millstream.Error{Kind: k, Msg: fmt.Sprintf(format, args...), Position: i + 1}
	return -1
}

// document reads the document in [i, end) into its stream and says why it is refused.
func (d *decoder) document(t *target, i, end int) *fault {
	switch {
	case d.op == opUpdate:
		return &fault{faultArgument, "update is not supported: records never change; use index or create"}
	case t.fault != nil:
		return t.fault
	case d.Data[i] != '{':
		return &fault{faultDocument, "failed to parse: the document is not a JSON object"}
	}
	body := d.Data
	d.Data = body[:end] // a document never goes beyond its line
	defer func() { d.Data = body }()
	stop := d.Read(i, t.stream.builder)
	if stop >= 0 && d.Space(stop) < end {
		d.Drop()
		stop = d.Fail(d.Space(stop), "something follows the document on its line")
	}
	if stop < 0 {
		at, msg := d.Failure()
		return &fault{faultDocument, fmt.Sprintf("failed to parse: malformed JSON at byte %d of the document: %s", at-i, msg)}
	}
	if t.mapped {
		d.Set(IndexField, t.index)
	}
	field, reason, err := d.Commit()
	switch {
	case err != nil:
		d.err = err
	case reason != "" && field != "":
		return &fault{faultDocument, fmt.Sprintf("failed to parse field [%s]: %s", field, reason)}
	case reason != "":
		return &fault{faultDocument, "failed to parse: " + reason}
	case len(d.order) == 1 && t.stream.builder.Rows() == sampleRows: // the rest will be like this
		t.stream.builder.Reserve(int(int64(len(body))*sampleRows/int64(end)) + sampleRows)
	}
	return nil
}

// readAction reads the action in [i, end) and gives the reason if it is malformed.
func (d *decoder) readAction(i, end int) (reason string) {
	body := d.Data
	d.Data = body[:end]
	defer func() { d.Data = body }()
	d.named, d.name, d.id = false, d.name[:0], d.id[:0]
	stop := d.Object(i, func(key []byte, i int) int {
		if d.named {
			return d.Fail(i, "expected END_OBJECT but found another action")
		}
		if d.named = true; !d.setOp(key) {
			return d.Fail(i, fmt.Sprintf("expected field [create], [delete], [index] or [update] but found [%.100s]", key))
		}
		return d.Object(i, d.parameter)
	})
	if stop >= 0 && d.Space(stop) < end {
		stop = d.Fail(stop, "something follows the action")
	}
	if stop < 0 {
		_, reason = d.Failure()
		return reason
	}
	if !d.named {
		return "expected FIELD_NAME but found [END_OBJECT]"
	}
	return ""
}

func (d *decoder) setOp(key []byte) bool {
	for k, name := range opNames {
		if string(key) == name {
			d.op = op(k)
			return true
		}
	}
	return false
}

// parameter reads one parameter of an action; all but the index and the id are of no meaning here.
func (d *decoder) parameter(key []byte, i int) int {
	var into *[]byte
	switch string(key) {
	case "_index":
		into = &d.name
	case "_id":
		into = &d.id
	}
	if c := d.Data[min(i, len(d.Data)-1)]; c == '{' || c == '[' {
		return d.Fail(i, fmt.Sprintf("expected a simple value for field [%.100s]", key))
	} else if c == '"' {
		text, end := d.Text(i)
		if end >= 0 && into != nil {
			*into = append((*into)[:0], text...)
		}
		return end
	}
	end := d.Scalar(i)
	if end >= 0 && into != nil && d.Data[i] != 'n' {
		*into = append((*into)[:0], d.Data[i:end]...)
	}
	return end
}

// target finds where the documents of the action's index go.
func (d *decoder) target() *target {
	if d.last != nil && d.last.index == string(d.name) {
		return d.last
	}
	if len(d.name) == 0 {
		d.name = append(d.name, d.index...)
	}
	t, ok := d.targets[string(d.name)]
	if !ok {
		t = d.newTarget(string(d.name))
		if len(d.targets) < 2*maxStreams {
			d.targets[t.index] = t
		}
	}
	d.last = t
	return t
}

func (d *decoder) newTarget(index string) *target {
	t := &target{index: index}
	if index == "" {
		t.fault = &fault{faultRequest, "Validation Failed: 1: index is missing;"}
		return t
	}
	name := StreamName(index)
	t.mapped = name != index
	if err := decode.CheckStream(name); err != nil {
		t.fault = &fault{faultIndex, "Invalid index name: " + millstream.Message(err)}
		return t
	}
	if t.stream = d.streams[name]; t.stream != nil {
		return t
	}
	if len(d.order) == maxStreams {
		t.fault = &fault{faultArgument, fmt.Sprintf("the request names more than %d indexes: send smaller batches", maxStreams)}
		return t
	}
	t.stream = &stream{stream: name, builder: millstream.NewBuilder(d.limits)}
	d.streams[name] = t.stream
	d.order = append(d.order, t.stream)
	return t
}

func (d *decoder) lineEnd(i int) int {
	if n := bytes.IndexByte(d.Data[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(d.Data)
}

// lineNumber is the line that i is on, from 1.
func (d *decoder) lineNumber(i int) int { return bytes.Count(d.Data[:i], []byte{'\n'}) + 1 }

// StreamName is the stream of an index: the data stream of a backing index (.ds-NAME-2026.11.30-000001), the base of an index by date (NAME-2026.11.30, also with a
// rollover number), otherwise the name itself.
func StreamName(index string) string {
	name := strings.TrimPrefix(index, ".ds-")
	base := name
	if n := len(base) - 7; n > 0 && base[n] == '-' && isDigits(base[n+1:]) {
		base = base[:n]
	}
	if n := len(base) - 11; n > 0 && base[n] == '-' && isDate(base[n+1:]) {
		return base[:n]
	}
	return name
}

// isDate says whether s is yyyy.mm.dd.
func isDate(s string) bool {
	return s[4] == '.' && s[7] == '.' && isDigits(s[:4]) && isDigits(s[5:7]) && isDigits(s[8:]) &&
		s[5:7] >= "01" && s[5:7] <= "12" && s[8:] >= "01" && s[8:] <= "31"
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
