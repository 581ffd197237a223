package query

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/gob"
	"fmt"
	"io"
	"reflect"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
)

// meaning grows when what leaves are asked or answer keeps its types and begins to mean something else: a new number of an aggregate, another way to round, other bytes of
// metrics.Query or metrics.AppendSeries, another error for what another node may do.
const meaning = 2

// form stands before what a leaf is asked and names the types of that and of the answer. gob leaves out, without a word, the fields that the other side does not
// have: a leaf of another release would run a plan without the condition that it does not know, and its answer would pass for the whole. So leaves work for nodes
// of the same form only, and while a cluster is upgraded those of the other release are passed over like nodes that are away: by the next in rank, at last by the
// asking node itself.
var form = formOf(append(scan.WireTypes(), leafAsk{}, leafDone{}, samplesKnown{}, wireSummary{}, millstream.Batch{})...)

// ofThisForm is an ask without its form.
func ofThisForm(ask []byte) (body []byte, err error) {
	if body, ok := bytes.CutPrefix(ask, form[:]); ok {
		return body, nil
	}
	return nil, millstream.Errorf(millstream.Unavailable, "the node runs another release, whose parts of queries have another form")
}

// formOf digests the types of values, and those of which they are made.
func formOf(values ...any) (out [8]byte) {
	h := sha256.New()
	fmt.Fprintln(h, meaning)
	seen := map[reflect.Type]bool{}
	for _, v := range values {
		describe(h, reflect.TypeOf(v), seen)
	}
	copy(out[:], h.Sum(nil))
	return out
}

var (
	gobEncoder    = reflect.TypeFor[gob.GobEncoder]()
	binaryEncoder = reflect.TypeFor[encoding.BinaryMarshaler]()
)

// describe writes what gob sees of a type. One that encodes itself is known by its name alone.
func describe(w io.Writer, t reflect.Type, seen map[reflect.Type]bool) {
	fmt.Fprintln(w, t, t.Kind())
	if seen[t] || t.Implements(gobEncoder) || t.Implements(binaryEncoder) {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		describe(w, t.Elem(), seen)
	case reflect.Array:
		fmt.Fprintln(w, t.Len())
		describe(w, t.Elem(), seen)
	case reflect.Map:
		describe(w, t.Key(), seen)
		describe(w, t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() {
				fmt.Fprintln(w, f.Name)
				describe(w, f.Type, seen)
			}
		}
		fmt.Fprintln(w, "end")
	}
}
