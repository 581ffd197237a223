package query

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/search"
	"github.com/millstream/millstream/query/sql"
)

// languageSearch is the search language of the Logs page. It is translated to SQL before anything runs.
const languageSearch = "search"

// defaultSearchRows is how many records a search answers with if the request does not say.
const defaultSearchRows = 1000

// Translation is a search as SQL.
type Translation struct {
	SQL      string        `json:"sql"`    // the statement that POST /query runs
	Filter   string        `json:"filter"` // its condition; empty: all records
	Warnings []string      `json:"warnings"`
	Terms    []search.Term `json:"terms"` // what to mark in results
}

// Translate turns a request in the search language to SQL, by the schema that its stream has now.
func (e *Engine) Translate(ctx context.Context, req Request) (*Translation, error) {
	parsed, err := search.Parse(req.Statement)
	if err != nil {
		return nil, err
	}
	sel := Selection{Org: req.Org, Signal: req.Signal, Stream: req.Stream}
	schema, err := e.schema(ctx, sel.key())
	if err != nil {
		return nil, err
	}
	c := parsed.Compile(schema.Fields, e.cfg.Now())
	t := &Translation{Filter: c.SQL, Warnings: c.Warnings, Terms: c.Terms}
	t.SQL = "SELECT * FROM " + fromClause(sel.key())
	if c.SQL != "" {
		t.SQL += " WHERE " + c.SQL
	}
	t.SQL += fmt.Sprintf(" ORDER BY %s DESC LIMIT %d", millstream.TimestampField, cmp.Or(req.Limit, defaultSearchRows))
	if len(t.SQL) > sql.MaxText {
		return nil, millstream.Errorf(millstream.TooLarge, "the search becomes a SQL statement of %d bytes; the limit is %d: search for less at once", len(t.SQL), sql.MaxText)
	}
	return t, nil
}

// schema is what is known of a stream's fields now, those of unflushed rows included.
func (e *Engine) schema(ctx context.Context, key millstream.StreamKey) (*millstream.Schema, error) {
	if key.Name == "" {
		return nil, millstream.Errorf(millstream.Invalid, "no stream is named")
	}
	if key.Signal == millstream.Metrics {
		return nil, millstream.Errorf(millstream.Invalid, "metrics cannot be searched: use PromQL or SQL")
	}
	now := e.cfg.Now().UnixNano()
	v, err := e.open(ctx, key.Org, []millstream.StreamKey{key}, millstream.TimeRange{Start: now, End: now + 1}) // the least that has a schema
	if err != nil {
		return nil, err
	}
	defer v.release()
	st := v.find(key)
	if st == nil {
		return nil, e.unknown(ctx, key.Org, sql.TableRef{Signal: key.Signal, Name: key.Name})
	}
	return &st.schema, nil
}

// inSQL makes a selection's filter SQL.
func (e *Engine) inSQL(ctx context.Context, sel *Selection) (warnings []string, err error) {
	switch sel.Language {
	case "", "sql":
		return []string{}, nil // not nil: an answer lists its warnings, also when there are none
	case languageSearch:
	default:
		return nil, millstream.Errorf(millstream.Invalid, "the language %q of a filter is unknown: use sql or search", sel.Language)
	}
	req := sel.request(sel.Filter, 0)
	t, err := e.Translate(ctx, req)
	if err != nil {
		return nil, err
	}
	sel.Language, sel.Filter = "sql", t.Filter
	return append([]string{}, t.Warnings...), nil
}

// Completion proposes what may stand at a place of a search.
type Completion struct {
	From  int              `json:"from"` // the proposals replace the characters (Unicode code points, from 0) from here
	To    int              `json:"to"`   // up to here
	Items []CompletionItem `json:"items"`
}

// CompletionItem is one proposal.
type CompletionItem struct {
	Label  string `json:"label"`
	Kind   string `json:"kind"`             // field, value, keyword or function
	Detail string `json:"detail,omitempty"` // a field's type, how often a value occurs
	Apply  string `json:"apply"`            // the text to put in
}

const (
	maxProposals   = 50
	valuesPatience = 2 * time.Second // for the values of a field; without them the completion has none
)

// Complete proposes what may stand at the cursor, which counts characters from 0: names of fields and keywords, and after a field's name its most frequent
// values in the range. It has no values where they cannot be had in time.
func (e *Engine) Complete(ctx context.Context, req Request, cursor int) (*Completion, error) {
	sel := Selection{Org: req.Org, User: req.User, Signal: req.Signal, Stream: req.Stream, Range: req.Range}
	schema, err := e.schema(ctx, sel.key())
	if err != nil {
		return nil, err
	}
	place := search.At(req.Statement, cursor)
	out := &Completion{From: place.From, To: place.To, Items: []CompletionItem{}}
	if place.Quoted {
		return out, nil
	}
	if place.Field == "" {
		out.Items = names(place, schema.Fields)
		return out, nil
	}
	if f, ok := search.Find(schema.Fields, place.Field); ok {
		ctx, cancel := context.WithTimeout(ctx, valuesPatience)
		defer cancel()
		out.Items = e.values(ctx, sel, place, f)
	}
	return out, nil
}

// names proposes fields, first those that begin with what is typed, and keywords.
func names(place search.Place, fields []millstream.Field) []CompletionItem {
	out := []CompletionItem{}
	for _, p := range search.Names(place, fields, maxProposals) {
		detail := ""
		if p.Kind == "field" {
			detail = p.Type.String()
		}
		out = append(out, CompletionItem{Label: p.Label, Kind: p.Kind, Detail: detail, Apply: p.Apply})
	}
	return out
}

func (e *Engine) values(ctx context.Context, sel Selection, place search.Place, f millstream.Field) []CompletionItem {
	out := []CompletionItem{}
	top, err := e.topValues(ctx, sel, f.Name, maxProposals, search.Beginning(f, place.Prefix))
	if err != nil {
		e.log.Debug("values cannot be proposed", "stream", sel.Stream, "error", err)
	}
	for _, v := range top {
		detail := fmt.Sprintf("%d records", v.Rows)
		if v.Rows == 1 {
			detail = "1 record"
		}
		out = append(out, CompletionItem{Label: strings.ToValidUTF8(v.Value, "\uFFFD"), Kind: "value", Detail: detail, Apply: search.Quoted(v.Value)})
	}
	return out
}
