package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/internal/spelling"
)

const (
	// maxJSON bounds the body of a call that is not intake.
	maxJSON = 1 << 20
	// maxDepth bounds the nesting of such a body.
	maxDepth = 32
)

// read decodes a JSON body strictly: the content type must say JSON, and unknown, repeated and trailing things are errors, each with its position.
func read(r *http.Request, into any) error { return readUpTo(maxJSON, r, into) }

// readUpTo is read with a limit of its own, in bytes.
func readUpTo(limit int64, r *http.Request, into any) error {
	if err := wantJSON(r); err != nil {
		return err
	}
	text, err := decode.Body(r.Body, r.Header.Get("Content-Encoding"), decode.Limits{MaxBody: limit, MaxDecoded: limit})
	if err != nil {
		return err
	}
	defer decode.Release(text)
	return unmarshal(text, into)
}

func wantJSON(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	t, _, err := mime.ParseMediaType(given)
	if given == "" || err == nil && (t == "application/json" || strings.HasSuffix(t, "+json")) {
		return nil
	}
	return &millstream.Error{Kind: millstream.Unsupported, Msg: fmt.Sprintf("content type %q is not taken here", given), Hint: "send Content-Type: application/json"}
}

func unmarshal(text []byte, into any) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return millstream.Errorf(millstream.Invalid, "the body is empty: a JSON object is expected")
	}
	if !utf8.Valid(text) {
		return millstream.Errorf(millstream.Invalid, "the body is not valid UTF-8")
	}
	s := strict{text: text, dec: json.NewDecoder(bytes.NewReader(text))}
	s.dec.UseNumber()
	if err := s.value(reflect.TypeOf(into).Elem(), 0); err != nil {
		return err
	}
	if _, err := s.dec.Token(); !errors.Is(err, io.EOF) {
		return s.fail("there is something after the end of the JSON value")
	}
	if err := json.Unmarshal(text, into); err != nil {
		return typeError(text, err)
	}
	return nil
}

// strict walks a JSON text beside the Go type it is meant for.
type strict struct {
	text []byte
	dec  *json.Decoder
}

// fail is an error at the place the walk has reached.
func (s *strict) fail(format string, args ...any) error {
	return invalidAt(s.text, s.dec.InputOffset(), "", format, args...)
}

func (s *strict) token() (json.Token, error) {
	t, err := s.dec.Token()
	if err == nil {
		return t, nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return nil, invalidAt(s.text, syntax.Offset, "", "the body is not valid JSON: %s", syntax.Error())
	}
	return nil, s.fail("the body is not valid JSON: it ends too early")
}

func (s *strict) value(t reflect.Type, depth int) error {
	if depth > maxDepth {
		return s.fail("the body is nested deeper than %d levels", maxDepth)
	}
	tok, err := s.token()
	if err != nil {
		return err
	}
	switch tok {
	case json.Delim('{'):
		return s.object(t, depth)
	case json.Delim('['):
		return s.array(t, depth)
	}
	return nil
}

func (s *strict) object(t reflect.Type, depth int) error {
	fields := fieldsOf(t)
	seen := map[string]bool{}
	for s.dec.More() {
		tok, err := s.token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		if seen[key] {
			return s.fail("the field %q is given twice", key)
		}
		seen[key] = true
		next, known := fields[key]
		if fields != nil && !known {
			return invalidAt(s.text, s.dec.InputOffset(), didYouMean(key, fields), "unknown field %q", key)
		}
		if err := s.value(next, depth+1); err != nil {
			return err
		}
	}
	_, err := s.token()
	return err
}

func (s *strict) array(t reflect.Type, depth int) error {
	var elem reflect.Type
	if t = indirect(t); t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		elem = t.Elem()
	}
	for s.dec.More() {
		if err := s.value(elem, depth+1); err != nil {
			return err
		}
	}
	_, err := s.token()
	return err
}

func indirect(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

var fieldCache sync.Map // reflect.Type → map[string]reflect.Type; as many as there are request types

// fieldsOf maps the JSON names of a struct's fields to their types; nil for whatever takes any field.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	t = indirect(t)
	if t == nil || t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(unmarshalerType) {
		return nil
	}
	if m, ok := fieldCache.Load(t); ok {
		return m.(map[string]reflect.Type)
	}
	m := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name := jsonName(f); name != "" && !f.Anonymous {
			m[name] = f.Type
		}
	}
	fieldCache.Store(t, m)
	return m
}

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// jsonName is the name of a field in JSON, empty for one that is not in it.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || !f.IsExported() {
		return ""
	}
	if name == "" {
		return f.Name
	}
	return name
}

// didYouMean suggests the nearest known name, or lists all when none is near.
func didYouMean(name string, known map[string]reflect.Type) string {
	names := slices.Sorted(maps.Keys(known))
	if hint := spelling.Hint(name, names); hint != "" {
		return hint
	}
	if len(names) > 0 {
		return "known fields: " + strings.Join(names, ", ")
	}
	return "no fields are expected"
}

// typeError says what a value should have been, or passes on what a type's own unmarshaler said.
func typeError(text []byte, err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return invalidAt(text, wrong.Offset, "", "the field %q is a %s, it must be %s", wrong.Field, wrong.Value, jsonKind(wrong.Type))
	}
	if millstream.KindOf(err) != millstream.Internal {
		return err
	}
	return millstream.Wrap(millstream.Invalid, err, "the body does not fit: %s", err)
}

func jsonKind(t reflect.Type) string {
	switch indirect(t).Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number within its range"
}

// invalidAt is an Invalid error about the character at a byte offset.
func invalidAt(text []byte, offset int64, hint, format string, args ...any) error {
	at := int(min(max(offset, 0), int64(len(text))))
	return &millstream.Error{Kind: millstream.Invalid, Msg: fmt.Sprintf(format, args...), Hint: hint, Position: max(utf8.RuneCount(text[:at]), 1)}
}

// pathValue is a parameter of the path, decoded exactly once. What is still encoded after that is taken as it stands, so "%252e" can never become a dot.
func pathValue(r *http.Request, name string) (string, error) {
	raw := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return raw, nil // the server has decoded it, and nothing in it was ambiguous
	}
	v, err := url.PathUnescape(raw)
	if err != nil {
		return "", millstream.Errorf(millstream.Invalid, "the path is not properly encoded at %q", raw)
	}
	return v, nil
}

// pathID is a parameter of the path that is an id of ours. What is no id is nobody's: NotFound, as for an id of another organization.
func pathID(r *http.Request, name string) (string, error) {
	id, err := pathValue(r, name)
	if err != nil {
		return "", err
	}
	if _, err := uuid.Parse(id); err != nil || len(id) != len(uuid.UUID{}.String()) {
		return "", millstream.Errorf(millstream.NotFound, "there is nothing with the id %q", id)
	}
	return strings.ToLower(id), nil
}
