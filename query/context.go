package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
)

// Around asks for the records before and after a time.
type Around struct {
	Selection            // Range bounds the search; Filter selects among the records before and after, not those at the time itself
	At            int64  // ns
	Before, After int    // records
	By            []Same // what all of the records share
}

// Same is a field and the value that records must have in it: a text, a json.Number, a bool or, for none, nil.
type Same struct {
	Field string
	Value any
}

// Context is the records around a time, each a JSON object of the fields it has, in the order of time.
type Context struct {
	Before     []json.RawMessage `json:"before"`
	Target     []json.RawMessage `json:"target"` // those at exactly the time
	After      []json.RawMessage `json:"after"`
	MoreBefore bool              `json:"more_before"` // there are more than were asked for
	MoreAfter  bool              `json:"more_after"`
	*Answer
}

// Bounds of a context.
const (
	maxContext = 1000 // records before, at and after
	// The first window that is searched, and by how much each next one is wider. After maxWindow the rest of time is the last.
	firstWindow = uint64(30e9)
	windowGrows = 4
	maxWindow   = uint64(400 * 24 * 3600e9)
)

// Context finds the records around a time.
func (e *Engine) Context(ctx context.Context, a Around) (*Context, error) {
	if a.Before < 0 || a.After < 0 || max(a.Before, a.After) > maxContext {
		return nil, millstream.Errorf(millstream.Invalid, "a context has at most %d records before and after its time", maxContext)
	}
	warnings, err := e.inSQL(ctx, &a.Selection)
	if err != nil {
		return nil, err
	}
	same, err := sameClause(a.By)
	if err != nil {
		return nil, err
	}
	out := &Context{}
	s := nearby{e: e, from: "SELECT * FROM " + fromClause(a.key())}
	out.Answer, err = e.do(ctx, a.request("context in "+tableName(a.key())+" at "+millstream.FormatTime(a.At), 0), func(ctx context.Context, q *task) (err error) {
		at := millstream.TimeRange{Start: a.At, End: a.At + 1}
		if out.Target, err = s.window(ctx, q, at, whereClause(same...), false, maxContext); err != nil {
			return err
		}
		s.where = whereClause(append(slices.Clone(same), a.Filter)...)
		if out.Before, out.MoreBefore, err = s.outward(ctx, q, millstream.TimeRange{Start: a.Range.Start, End: min(a.At, a.Range.End)}, true, a.Before); err != nil {
			return err
		}
		slices.Reverse(out.Before)
		out.After, out.MoreAfter, err = s.outward(ctx, q, millstream.TimeRange{Start: max(a.At+1, a.Range.Start), End: a.Range.End}, false, a.After)
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Warnings = append(warnings, out.Warnings...)
	for _, list := range []*[]json.RawMessage{&out.Before, &out.Target, &out.After} {
		if *list == nil { // none, or the query was stopped
			*list = []json.RawMessage{}
		}
	}
	return out, nil
}

// sameClause makes conditions of what records share.
func sameClause(by []Same) (conditions []string, err error) {
	for _, s := range by {
		name := quoteName(s.Field)
		switch v := s.Value.(type) {
		case nil:
			conditions = append(conditions, name+" IS NULL")
		case string:
			conditions = append(conditions, name+" = "+quoteText(v))
		case bool:
			conditions = append(conditions, name+" = "+strconv.FormatBool(v))
		case json.Number:
			conditions = append(conditions, name+" = "+v.String())
		default:
			return nil, millstream.Errorf(millstream.Invalid, "the value of field %q must be a text, a number, true, false or null", s.Field)
		}
	}
	return conditions, nil
}

// quoteText writes a text literal.
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// nearby looks for records from a time on, in windows that grow, so that a near record does not cost a look at everything.
type nearby struct {
	e           *Engine
	from, where string
}

// outward gives the n nearest records of a range, seen from its end (newest) or its start, nearest first, and whether there are more.
func (s *nearby) outward(ctx context.Context, q *task, r millstream.TimeRange, newest bool, n int) (found []json.RawMessage, more bool, err error) {
	if n == 0 {
		return nil, false, nil
	}
	for width := firstWindow; r.Start < r.End && len(found) <= n; width *= windowGrows {
		w := r
		if width <= maxWindow && width < uint64(r.End)-uint64(r.Start) {
			if newest {
				w.Start = r.End - int64(width)
			} else {
				w.End = r.Start + int64(width)
			}
		}
		records, err := s.window(ctx, q, w, s.where, newest, n+1-len(found))
		if errors.Is(err, errTooManyRows) {
			q.partial(fmt.Sprintf("records further away than %s were not looked for: the search would read more rows than a query may", millstream.FormatTime(pick(newest, w.End, w.Start))))
			break
		}
		if err != nil {
			return nil, false, err
		}
		found = append(found, records...)
		if newest {
			r.End = w.Start
		} else {
			r.Start = w.End
		}
	}
	return found[:min(n, len(found))], len(found) > n, nil
}

func pick(first bool, a, b int64) int64 {
	if first {
		return a
	}
	return b
}

// window gives the first or the last n records of a time range.
func (s *nearby) window(ctx context.Context, q *task, r millstream.TimeRange, where string, newest bool, n int) ([]json.RawMessage, error) {
	q.Range, q.Limit = r, n
	order := " ORDER BY _timestamp"
	if newest {
		order += " DESC"
	}
	var rows collector
	err := s.e.answer(ctx, q, s.from+where+order, sql.Params{}, &rows)
	q.emitted = false // what was found is not sent yet
	if err != nil {
		return nil, err
	}
	var found []json.RawMessage
	rows.each(func(cols []millstream.Column, i int) { found = append(found, appendObject(nil, cols, i)) })
	return found, nil
}
