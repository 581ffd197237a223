package sql

import (
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// literalKind says what a constant expression is.
type literalKind uint8

const (
	intLit literalKind = iota
	floatLit
	textLit
	boolLiteral
	timeLit     // i is ns since the epoch
	intervalLit // i is ns
)

type literal struct {
	kind literalKind
	i    int64
	f    float64
	s    string
}

// literal evaluates the constant expressions that statements have: literals, casts of texts to times, the clock, and times moved by fixed intervals.
func (b *binder) literal(n node) (literal, bool) {
	switch text(n, "class") {
	case "CONSTANT":
		return constant(n)
	case "CAST":
		return b.castLiteral(n)
	case "COLUMN_REF":
		if names := strs(n, "column_names"); len(names) == 1 && isClock(names[0]) {
			return literal{kind: timeLit, i: b.now.UnixMicro() * 1000}, true
		}
	case "FUNCTION":
		return b.callLiteral(n)
	}
	return literal{}, false
}

// isClock says whether a word or function is the statement's time. Those of the date or of local time are not among them.
func isClock(name string) bool {
	switch strings.ToLower(name) {
	case "now", "current_timestamp", "get_current_timestamp", "transaction_timestamp":
		return true
	}
	return false
}

func constant(n node) (literal, bool) {
	value := child(n, "value")
	if flag(value, "is_null") {
		return literal{}, false
	}
	switch v := value["value"].(type) {
	case string:
		return literal{kind: textLit, s: v}, text(child(value, "type"), "id") == "VARCHAR"
	case bool:
		l := literal{kind: boolLiteral}
		if v {
			l.i = 1
		}
		return l, true
	case json.Number:
		return numberLiteral(v, child(value, "type"))
	}
	return literal{}, false
}

func numberLiteral(v json.Number, typ node) (literal, bool) {
	switch text(typ, "id") {
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT":
		i, err := v.Int64()
		return literal{kind: intLit, i: i}, err == nil
	case "FLOAT", "DOUBLE":
		f, err := v.Float64()
		return literal{kind: floatLit, f: f}, err == nil
	case "DECIMAL":
		return decimalLiteral(v, child(typ, "type_info"))
	}
	return literal{}, false
}

// decimalLiteral reads a decimal, whose value in the tree is the unscaled integer. The result is the double nearest to it.
func decimalLiteral(v json.Number, info node) (literal, bool) {
	scale, ok := info["scale"].(json.Number)
	unscaled, ok2 := new(big.Int).SetString(v.String(), 10)
	if !ok || !ok2 {
		return literal{}, false
	}
	f, err := strconv.ParseFloat(unscaled.String()+"e-"+scale.String(), 64)
	return literal{kind: floatLit, f: f}, err == nil
}

func (b *binder) castLiteral(n node) (literal, bool) {
	l, ok := b.literal(child(n, "child"))
	if !ok || flag(n, "try_cast") {
		return literal{}, false
	}
	switch text(child(n, "cast_type"), "id") {
	case "BOOLEAN":
		if l.kind == textLit {
			return textBool(l.s)
		}
		return l, l.kind == boolLiteral
	case "TIMESTAMP", "TIMESTAMP WITH TIME ZONE":
		return timeCast(l, 1000)
	case "TIMESTAMP_NS":
		return timeCast(l, 1)
	case "DATE":
		return timeCast(l, int64(24*time.Hour))
	case "INTERVAL":
		d, ok := parseInterval(l.s)
		return literal{kind: intervalLit, i: d}, ok && l.kind == textLit
	case "DOUBLE":
		return asFloat(l)
	case "BIGINT":
		return l, l.kind == intLit || (l.kind == floatLit && l.f == math.Trunc(l.f) && math.Abs(l.f) < millstream.MaxExactInt)
	case "VARCHAR":
		return l, l.kind == textLit
	}
	return literal{}, false
}

func textBool(s string) (literal, bool) {
	switch strings.ToLower(s) {
	case "t", "true":
		return literal{kind: boolLiteral, i: 1}, true
	case "f", "false":
		return literal{kind: boolLiteral}, true
	}
	return literal{}, false
}

func asFloat(l literal) (literal, bool) {
	switch l.kind {
	case floatLit:
		return l, true
	case intLit:
		return literal{kind: floatLit, f: float64(l.i)}, l.i <= millstream.MaxExactInt && l.i >= -millstream.MaxExactInt
	case textLit:
		f, ok := parseNumber(l.s)
		return literal{kind: floatLit, f: f}, ok
	}
	return literal{}, false
}

// timeCast reads a time of a precision; a text that is finer is left to DuckDB.
func timeCast(l literal, unit int64) (literal, bool) {
	switch l.kind {
	case timeLit:
	case textLit:
		ns, ok := parseTime(l.s)
		if !ok {
			return literal{}, false
		}
		l = literal{kind: timeLit, i: ns}
	default:
		return literal{}, false
	}
	return l, l.i%unit == 0
}

// callLiteral evaluates now(), the to_… functions that INTERVAL becomes, trunc around their argument, and time ± interval.
func (b *binder) callLiteral(n node) (literal, bool) {
	args := nodes(n, "children")
	name := function(n)
	switch {
	case len(args) == 0 && isClock(name):
		return literal{kind: timeLit, i: b.now.UnixMicro() * 1000}, true
	case len(args) == 1:
		l, ok := b.literal(args[0])
		if !ok {
			return literal{}, false
		}
		return unaryLiteral(name, l)
	case len(args) == 2 && (name == "+" || name == "-"):
		x, ok1 := b.literal(args[0])
		y, ok2 := b.literal(args[1])
		if !ok1 || !ok2 || x.kind != timeLit || y.kind != intervalLit {
			return literal{}, false
		}
		if name == "-" {
			y.i = -y.i
		}
		sum := x.i + y.i
		return literal{kind: timeLit, i: sum}, (sum > x.i) == (y.i > 0)
	}
	return literal{}, false
}

var intervalFunctions = map[string]time.Duration{
	"to_microseconds": time.Microsecond, "to_milliseconds": time.Millisecond, "to_seconds": time.Second, "to_minutes": time.Minute, "to_hours": time.Hour,
	"to_days": 24 * time.Hour, "to_weeks": 7 * 24 * time.Hour,
}

func unaryLiteral(name string, l literal) (literal, bool) {
	if name == "-" {
		l.i, l.f = -l.i, -l.f
		return l, l.kind == intLit && l.i != math.MinInt64 || l.kind == floatLit || l.kind == intervalLit
	}
	number, ok := asFloat(l)
	if !ok {
		return literal{}, false
	}
	if name == "trunc" {
		return literal{kind: floatLit, f: math.Trunc(number.f)}, true
	}
	unit, ok := intervalFunctions[name]
	ns := number.f * float64(unit)
	return literal{kind: intervalLit, i: int64(ns)}, ok && math.Abs(ns) < 1e18 && ns == math.Trunc(ns)
}

func boolValue(b bool) segment.Value {
	v := segment.Value{Kind: segment.BoolValue}
	if b {
		v.Int = 1
	}
	return v
}

// value is the literal n as a value to compare a field of a type with, if that comparison means in a segment what it means in SQL.
func (b *binder) value(n node, typ millstream.Type) (segment.Value, bool) {
	l, ok := b.literal(n)
	if !ok {
		return segment.Value{}, false
	}
	switch typ {
	case millstream.Timestamp:
		return timeValue(l)
	case millstream.Int64:
		return intValue(l)
	case millstream.Double:
		f, ok := asFloat(l)
		return segment.Value{Kind: segment.FloatValue, Float: f.f}, ok && !math.IsNaN(f.f)
	case millstream.Bool:
		if l.kind == textLit {
			l, ok = textBool(l.s)
		}
		return boolValue(l.i != 0), ok && l.kind == boolLiteral
	case millstream.String:
		switch l.kind {
		case textLit:
			return segment.Value{Kind: segment.StringValue, Str: l.s}, true
		case intLit, floatLit:
			return intValue(l)
		}
	}
	return segment.Value{}, false
}

func timeValue(l literal) (segment.Value, bool) {
	switch l.kind {
	case textLit:
		ns, ok := parseTime(l.s)
		return segment.Value{Kind: segment.TimeValue, Int: ns}, ok
	case timeLit, intLit:
		return segment.Value{Kind: segment.TimeValue, Int: l.i}, true
	}
	return segment.Value{}, false
}

func intValue(l literal) (segment.Value, bool) {
	switch l.kind {
	case intLit:
		return segment.Value{Kind: segment.IntValue, Int: l.i}, true
	case floatLit:
		if l.f == math.Trunc(l.f) && math.Abs(l.f) <= millstream.MaxExactInt {
			return segment.Value{Kind: segment.IntValue, Int: int64(l.f)}, true
		}
		return segment.Value{Kind: segment.FloatValue, Float: l.f}, !math.IsNaN(l.f)
	case textLit:
		i, err := strconv.ParseInt(l.s, 10, 64)
		return segment.Value{Kind: segment.IntValue, Int: i}, err == nil
	}
	return segment.Value{}, false
}

var numberPattern = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$`)

// parseNumber reads a plain decimal number; what else DuckDB's cast takes is left to it.
func parseNumber(s string) (float64, bool) {
	if !numberPattern.MatchString(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// timeLayouts are the texts of times that mean the same to us and to DuckDB. Go reads a fraction after the seconds by itself.
var timeLayouts = []string{"2006-01-02", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02T15:04:05Z07:00",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05-07"}

func parseTime(s string) (int64, bool) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixNano(), t.Year() >= 1678 && t.Year() <= 2261
		}
	}
	return 0, false
}

var intervalPattern = regexp.MustCompile(`^\s*(\d+)\s*([a-zA-Zµ]*)\s*$`)

var intervalUnits = map[string]time.Duration{
	"ns": time.Nanosecond, "nanosecond": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "microsecond": time.Microsecond,
	"ms": time.Millisecond, "millisecond": time.Millisecond, "s": time.Second, "sec": time.Second, "second": time.Second, "m": time.Minute, "min": time.Minute,
	"minute": time.Minute, "h": time.Hour, "hr": time.Hour, "hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour, "w": 7 * 24 * time.Hour,
	"week": 7 * 24 * time.Hour,
}

// parseInterval reads a fixed interval such as '1 minute', '5m' or '30 seconds', in ns. Months and years have no fixed length.
func parseInterval(s string) (int64, bool) {
	m := intervalPattern.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	unit, ok := intervalUnits[strings.ToLower(m[2])]
	if !ok {
		unit, ok = intervalUnits[strings.TrimSuffix(strings.ToLower(m[2]), "s")]
	}
	if err != nil || !ok || n <= 0 || n > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return n * int64(unit), true
}
