package loki

import (
	"math"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode/scan"
)

// jsonPush reads {"streams":[{"stream":{label:value},"values":[[time,line,{name:value}]]}]}.
type jsonPush struct {
	scan.JSON
	*push
	line []byte
}

func (p *push) json(body []byte) error {
	j := jsonPush{JSON: scan.JSON{Data: body}, push: p}
	i := j.Space(0)
	if i == len(body) {
		return millstream.Errorf(millstream.Invalid, "EOF: the body is empty")
	}
	end := j.Object(i, func(key []byte, i int) int {
		if string(key) == "streams" {
			return j.Array(i, j.stream)
		}
		return j.Value(i)
	})
	if end >= 0 {
		if end = j.Space(end); end < len(body) {
			end = j.Fail(end, "something follows the object")
		}
	}
	if end < 0 && p.err == nil {
		return j.Err()
	}
	return nil
}

// stream reads one stream. Its values may come before its labels; then they are passed over first and read after them.
func (j *jsonPush) stream(i int) int {
	j.labels.reset()
	values, labeled := -1, false
	end := j.Object(i, func(key []byte, i int) int {
		switch string(key) {
		case "stream":
			labeled = true
			return j.pairs(i, &j.labels)
		case "values":
			if labeled {
				return j.Array(i, j.value)
			}
			values = i
		}
		return j.Value(i)
	})
	if end >= 0 && values >= 0 && j.Array(values, j.value) < 0 {
		return -1
	}
	return end
}

// pairs reads an object of strings.
func (j *jsonPush) pairs(i int, into *pairs) int {
	into.reset()
	return j.Object(i, func(key []byte, i int) int {
		into.add(key)
		value, end := j.Text(i)
		if end >= 0 {
			into.add(value)
		}
		return end
	})
}

// value reads [time, line] or [time, line, metadata].
func (j *jsonPush) value(i int) int {
	var ns int64
	n := 0
	j.meta.reset()
	end := j.Array(i, func(i int) int {
		n++
		switch n {
		case 1:
			ns, i = j.time(i)
			return i
		case 2:
			line, end := j.Text(i)
			j.line = append(j.line[:0], line...)
			return end
		case 3:
			return j.pairs(i, &j.meta)
		}
		return j.Fail(i, "an entry has more than time, line and metadata")
	})
	if end >= 0 && n < 2 {
		return j.Fail(i, "an entry needs a time and a line")
	}
	if end >= 0 && !j.entry(ns, j.line, end) {
		return -1
	}
	return end
}

// time reads nanoseconds since the epoch, as a string or as an integer.
func (j *jsonPush) time(i int) (ns int64, end int) {
	text := []byte(nil)
	if i < len(j.Data) && j.Data[i] == '"' {
		text, end = j.Text(i)
	} else if end = j.Scalar(i); end >= 0 {
		text = j.Data[i:end]
	}
	if end < 0 {
		return 0, -1
	}
	ns, ok := parseNanos(text)
	if !ok {
		return 0, j.Fail(i, "a time is expected in nanoseconds since the epoch, as a string of digits")
	}
	return ns, end
}

func parseNanos(s []byte) (int64, bool) {
	neg := len(s) > 0 && s[0] == '-'
	if neg {
		s = s[1:]
	}
	if len(s) == 0 || len(s) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if n > math.MaxInt64 {
		return 0, false
	}
	if neg {
		return -int64(n), true
	}
	return int64(n), true
}
