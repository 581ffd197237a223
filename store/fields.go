package store

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/millstream/millstream"
)

// storedField is a field as table streams keeps it; the short names keep a schema of thousands of fields small.
type storedField struct {
	Name     string            `json:"n"`
	Type     millstream.Type   `json:"t"`
	WideInt  bool              `json:"w,omitempty"`
	Conflict bool              `json:"c,omitempty"`
	Seen     []millstream.Type `json:"-"`
	SeenText []int             `json:"s,omitempty"`
}

func encodeFields(fields []millstream.Field) ([]byte, error) {
	out := make([]storedField, len(fields))
	for i, f := range fields {
		out[i] = storedField{Name: escape(f.Name), Type: f.Type, WideInt: f.WideInt, Conflict: f.Conflict}
		for _, t := range f.Seen {
			out[i].SeenText = append(out[i].SeenText, int(t)) // not as []Type: JSON takes a slice of bytes for binary
		}
	}
	return json.Marshal(out)
}

func decodeFields(text []byte) ([]millstream.Field, error) {
	if len(text) <= len("[]") {
		return nil, nil
	}
	var in []storedField
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("read a stream's stored schema: %w", err)
	}
	out := make([]millstream.Field, len(in))
	for i, f := range in {
		out[i] = millstream.Field{Name: unescape(f.Name), Type: f.Type, WideInt: f.WideInt, Conflict: f.Conflict}
		for _, t := range f.SeenText {
			out[i].Seen = append(out[i].Seen, millstream.Type(t))
		}
	}
	return out, nil
}

// joinFields joins new into have and says whether anything changed. New names are added while there are fewer than limit (0: no limit); the reserved fields
// always are. have is not modified.
func joinFields(have, new []millstream.Field, limit int) (out []millstream.Field, changed bool) {
	at := make(map[string]int, len(have)+len(new))
	for i, f := range have {
		at[f.Name] = i
	}
	out = slices.Clone(have)
	for _, f := range new {
		i, ok := at[f.Name]
		if !ok {
			if limit > 0 && len(out) >= limit && f.Name != millstream.OverflowField && f.Name != millstream.TimestampField {
				continue
			}
			at[f.Name] = len(out)
			out, changed = append(out, normal(f)), true
			continue
		}
		joined := out[i].Join(normal(f))
		if !sameField(joined, out[i]) {
			out[i], changed = joined, true
		}
	}
	return out, changed
}

// normal makes a field say that it saw its own type, whatever its maker left out.
func normal(f millstream.Field) millstream.Field {
	if len(f.Seen) == 0 && f.Type != 0 {
		f.Seen = []millstream.Type{f.Type}
	}
	return f
}

func sameField(a, b millstream.Field) bool {
	return a.Name == b.Name && a.Type == b.Type && a.WideInt == b.WideInt && a.Conflict == b.Conflict && slices.Equal(a.Seen, b.Seen)
}
