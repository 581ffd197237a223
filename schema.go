package millstream

// Type is the type of a field. The numbers are stored; never renumber.
type Type uint8

// The types of fields. A JSON array or object that is kept whole is a String of its JSON text.
const (
	Bool      Type = 1
	Int64     Type = 2
	Double    Type = 3
	Timestamp Type = 4 // nanoseconds since the epoch
	String    Type = 5
)

func (t Type) String() string {
	switch t {
	case Bool:
		return "bool"
	case Int64:
		return "int64"
	case Double:
		return "double"
	case Timestamp:
		return "timestamp"
	case String:
		return "string"
	}
	return "unknown"
}

// MaxExactInt is the largest magnitude up to which every integer is a double exactly.
const MaxExactInt = 1 << 53

// Field is one field of a stream's schema. WideInt records that an integer beyond ±2^53 was seen, so that a later join with Double must go to String.
// Conflict records that values of another type than the first were seen; it never goes away.
type Field struct {
	Name     string
	Type     Type
	WideInt  bool
	Conflict bool
	Seen     []Type // every type that was seen, in order of first sight
}

// JoinType is the least type that holds every value of both without loss. It is commutative, associative and monotone, so the order in which conflicting
// records arrive never matters: equal types stay, int64 and double give double unless an integer is too wide for it, every other mix gives string.
func JoinType(a, b Type, wideInt bool) Type {
	switch {
	case a == b, b == 0:
		if a == Double && wideInt {
			return String
		}
		return a
	case a == 0:
		return JoinType(b, b, wideInt)
	case a == Int64 && b == Double, a == Double && b == Int64:
		if wideInt {
			return String
		}
		return Double
	}
	return String
}

// Join merges what two sides know of one field.
func (f Field) Join(g Field) Field {
	out := Field{Name: f.Name, WideInt: f.WideInt || g.WideInt, Seen: append([]Type(nil), f.Seen...)}
	for _, t := range g.Seen {
		if !containsType(out.Seen, t) {
			out.Seen = append(out.Seen, t)
		}
	}
	out.Type = JoinType(f.Type, g.Type, out.WideInt)
	out.Conflict = f.Conflict || g.Conflict || len(out.Seen) > 1
	return out
}

func containsType(ts []Type, t Type) bool {
	for _, x := range ts {
		if x == t {
			return true
		}
	}
	return false
}

// Schema is what is known of a stream's fields at one version. Fields are in order of first sight.
type Schema struct {
	Version int64
	Fields  []Field
}

// Field finds a field by its exact name.
func (s *Schema) Field(name string) (Field, bool) {
	for _, f := range s.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}
