package grafana

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// object is a JSON object of a format that changed its types often: what is asked for is there in the type asked for, or is zero.
type object map[string]any

func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func (o object) object(path ...string) object {
	m, _ := o.at(path...).(map[string]any)
	return m
}

func (o object) list(path ...string) []any {
	l, _ := o.at(path...).([]any)
	return l
}

// objects are the objects of a list.
func (o object) objects(path ...string) []object {
	var out []object
	for _, v := range o.list(path...) {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func (o object) text(path ...string) string { return textOf(o.at(path...)) }

// textOf is a string, or a number or truth value as text.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// texts is a list of strings, or a string as the only one.
func (o object) texts(path ...string) []string {
	v := o.at(path...)
	l, ok := v.([]any)
	if !ok {
		l = []any{v}
	}
	var out []string
	for _, e := range l {
		if s := textOf(e); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (o object) yes(path ...string) bool {
	b, _ := o.at(path...).(bool)
	return b
}

// number is a number, also one that is written as text; nil: none.
func (o object) number(path ...string) *float64 { return numberOf(o.at(path...)) }

func numberOf(v any) *float64 {
	if f, ok := v.(float64); ok {
		return &f
	}
	var text string
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return &f
	}
	return nil
}

// whole is a number within bounds, or what stands for none.
func (o object) whole(absent, least, most int, path ...string) int {
	f := o.number(path...)
	if f == nil {
		return absent
	}
	return int(min(max(math.Round(*f), float64(least)), float64(most)))
}

// cut shortens a text to so many characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most])
}

// parse reads an object. Numbers stay as they are written, so that what is kept of it is not changed.
func parse(text []byte) (object, error) {
	var o object
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err := dec.Decode(&o)
	return o, err
}

// encode is the reverse of parse; it leaves < and & as they are.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
