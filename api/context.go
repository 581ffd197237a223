package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/timespec"
	"github.com/millstream/millstream/query"
)

type contextBody struct {
	selectionBody
	At     timespec.Value             `json:"at" doc:"the time, RFC 3339 with up to nine digits after the second"`
	Before *int                       `json:"before,omitempty" doc:"records; default: 50"`
	After  *int                       `json:"after,omitempty" doc:"records; default: 50"`
	By     map[string]json.RawMessage `json:"by,omitempty" doc:"values that all records share, by field: a text, a number, true, false, or null for none"`
}

// aroundRecords is how many records a context has on each side unless it is asked for more.
const aroundRecords = 50

func (a *API) context(w http.ResponseWriter, r *http.Request) error {
	var b contextBody
	if err := read(r, &b); err != nil {
		return err
	}
	sel, err := a.selection(r, b.selectionBody)
	if err != nil {
		return err
	}
	if b.At == "" {
		return millstream.Errorf(millstream.Invalid, "at is missing: it is the time whose surroundings are asked for")
	}
	at, err := timespec.Parse(string(b.At), a.Now())
	if err != nil {
		return err
	}
	ask := query.Around{Selection: sel, At: min(at.UnixNano(), math.MaxInt64-1), Before: aroundRecords, After: aroundRecords}
	if b.Before != nil {
		ask.Before = *b.Before
	}
	if b.After != nil {
		ask.After = *b.After
	}
	for _, field := range slices.Sorted(maps.Keys(b.By)) {
		s := query.Same{Field: field}
		dec := json.NewDecoder(bytes.NewReader(b.By[field]))
		dec.UseNumber() // a large integer keeps its digits
		if err := dec.Decode(&s.Value); err != nil {
			return millstream.Wrap(millstream.Invalid, err, "the value of field %q cannot be read", field)
		}
		ask.By = append(ask.By, s)
	}
	found, err := a.Explore.Context(r.Context(), ask)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, found)
}
