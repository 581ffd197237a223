package segment

import (
	"encoding/json"
	"regexp"
)

// Expr is a filter on the records of a stream. It follows SQL's three-valued logic: a comparison with a null value is unknown, and a record is selected only
// where the whole is true. The same expression is evaluated on segments, with the index, and on unflushed batches, without; the answers are equal.
type Expr interface{ expr() }

// The nodes of a filter. Field names are exact. A field that a source lacks is null in every row.
type (
	// And is true where all are; empty: true.
	And []Expr
	// Or is true where one is; empty: false.
	Or []Expr
	// Not negates; unknown stays unknown.
	Not struct{ X Expr }

	// Compare compares a field with a literal. A number literal on a field of type String (one that widened) compares TRY_CAST(field AS DOUBLE); a string
	// literal on a non-string field compares with the literal cast to the field's type, and selects nothing if it cannot be cast.
	// TimestampField with an Int (ns) literal compares the record's time.
	Compare struct {
		Field string
		Op    Op
		Value Value
	}
	// In is the Or of equalities.
	In struct {
		Field  string
		Values []Value
	}
	// IsNull is true where the field has no value.
	IsNull struct{ Field string }

	// Like is SQL's LIKE (ILIKE if Fold): % any run, _ one character, backslash escapes.
	Like struct {
		Field   string
		Pattern string
		Fold    bool
	}
	// Contains is a plain substring test, what LIKE '%text%' becomes.
	Contains struct{ Field, Text string }
	// Regex is true where the RE2 expression matches anywhere in the field's text.
	Regex struct {
		Field string
		Re    *regexp.Regexp
	}
	// Match finds the words of Query (see Tokens) in one field, or, if Field is empty, each in any string field but ids: match() and match_all() of the
	// query language. Every word must be there as a whole token, case folded; a part of Query in double quotes must stand in one field, in that order. A star
	// that touches a word stands for the rest of a token: time*, *out, t*t.
	Match struct{ Field, Query string }
)

// wireRegex is how a Regex travels: its expression is compiled where it arrives.
type wireRegex struct{ Field, Text string }

// GobEncode implements gob.GobEncoder.
func (r Regex) GobEncode() ([]byte, error) {
	return json.Marshal(wireRegex{r.Field, r.Re.String()})
}

// GobDecode implements gob.GobDecoder.
func (r *Regex) GobDecode(b []byte) error {
	var w wireRegex
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	re, err := regexp.Compile(w.Text)
	r.Field, r.Re = w.Field, re
	return err
}

func (And) expr()      {}
func (Or) expr()       {}
func (Not) expr()      {}
func (Compare) expr()  {}
func (In) expr()       {}
func (IsNull) expr()   {}
func (Like) expr()     {}
func (Contains) expr() {}
func (Regex) expr()    {}
func (Match) expr()    {}

// Op is a comparison operator.
type Op uint8

// The comparison operators.
const (
	Eq Op = iota
	Ne
	Lt
	Le
	Gt
	Ge
)

// ValueKind says which member of a Value counts.
type ValueKind uint8

// The kinds of literals.
const (
	IntValue ValueKind = iota
	FloatValue
	StringValue
	BoolValue // Int is 0 or 1
	TimeValue // Int is nanoseconds since the epoch
)

// Value is a literal of a filter.
type Value struct {
	Kind  ValueKind
	Int   int64
	Float float64
	Str   string
}
