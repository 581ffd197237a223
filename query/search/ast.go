package search

// node is a part of a search.
type node interface{ node() }

type (
	allOf []node // and
	anyOf []node // or
	not   struct{ x node }

	// term is one condition: on a field, or, with an empty one, on the record.
	term struct {
		at    int // byte offset in the text
		field string
		kind  termKind
		op    string   // compare: < <= > >= =
		text  string   // phrase, regex, compare
		parts []string // word: the text, split at its wildcards
		lo    bound    // span
		hi    bound
	}

	// bound is an end of a range.
	bound struct {
		at   int
		text string
		open bool // *
		excl bool
	}
)

func (allOf) node() {}
func (anyOf) node() {}
func (not) node()   {}
func (*term) node() {}

type termKind uint8

const (
	word termKind = iota
	phrase
	regex
	compare
	span
	exists
)
