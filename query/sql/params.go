package sql

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/millstream/millstream"
)

// Params are the values of a statement's parameters: Positional for ? and $1, Named for $name. A value is nil, bool, string, float64, int64 or json.Number.
type Params struct {
	Positional []any
	Named      map[string]any
}

func (p Params) empty() bool { return len(p.Positional) == 0 && len(p.Named) == 0 }

func (p Params) value(identifier string) (any, bool) {
	if i, err := strconv.Atoi(identifier); err == nil {
		if i < 1 || i > len(p.Positional) {
			return nil, false
		}
		return p.Positional[i-1], true
	}
	if v, ok := p.Named[identifier]; ok {
		return v, true
	}
	for name, v := range p.Named {
		if strings.EqualFold(name, identifier) {
			return v, true
		}
	}
	return nil, false
}

// fill puts the values into the tree as literals, so that everything after sees one kind of statement. A parameter without a value stays and is refused by
// the check that follows.
func (p Params) fill(statement string, tree node) (err error) {
	if p.empty() {
		return nil
	}
	walk(tree, func(n node) bool {
		if text(n, "class") != "PARAMETER" || err != nil {
			return err == nil
		}
		v, ok := p.value(text(n, "identifier"))
		if !ok {
			return false
		}
		literal, bad := paramLiteral(v)
		if bad != nil {
			err = invalid(statement, offset(n), "", "parameter %q: %s", text(n, "identifier"), millstream.Message(bad))
			return false
		}
		literal["query_location"] = n["query_location"]
		replace(n, literal)
		return false
	})
	return err
}

func paramLiteral(v any) (node, error) {
	switch v := v.(type) {
	case nil:
		n := newConstant("NULL", nil)
		n["value"] = node{"type": node{"id": "NULL", "type_info": nil}, "is_null": true}
		return n, nil
	case bool:
		return newConstant("BOOLEAN", v), nil
	case string:
		if strings.IndexByte(v, 0) >= 0 {
			return nil, millstream.Errorf(millstream.Invalid, "a value may not have a NUL character")
		}
		return newConstant("VARCHAR", v), nil
	case int64:
		return newConstant("BIGINT", json.Number(strconv.FormatInt(v, 10))), nil
	case float64:
		return floatLiteral(v)
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return newConstant("BIGINT", json.Number(strconv.FormatInt(i, 10))), nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, millstream.Errorf(millstream.Invalid, "the number is out of range")
		}
		return floatLiteral(f)
	}
	return nil, millstream.Errorf(millstream.Invalid, "a value has to be null, a boolean, a number or a string")
}

func floatLiteral(f float64) (node, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil, millstream.Errorf(millstream.Invalid, "the number has to be finite")
	case f == math.Trunc(f) && math.Abs(f) <= millstream.MaxExactInt:
		return newConstant("BIGINT", json.Number(strconv.FormatInt(int64(f), 10))), nil
	}
	return newConstant("DOUBLE", json.Number(strconv.FormatFloat(f, 'e', -1, 64))), nil
}
