package millstream

import (
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"
)

// Label is a name and value of a metric series.
type Label struct{ Name, Value string }

// EncodeLabels appends the canonical form of a label set to dst: labels sorted by name, empty values dropped, each name and value preceded by its uvarint
// length. Two label sets are the same series exactly when their canonical forms are equal. The argument is sorted in place. A duplicate name is Invalid.
func EncodeLabels(dst []byte, ls []Label) ([]byte, error) {
	for i := 1; i < len(ls); i++ {
		if ls[i].Name < ls[i-1].Name { // senders sort, as a rule
			slices.SortStableFunc(ls, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
			break
		}
	}
	for i, l := range ls {
		if i > 0 && ls[i-1].Name == l.Name {
			return dst, Errorf(Invalid, "label %q is given twice", l.Name)
		}
		if l.Value == "" {
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(l.Name)))
		dst = append(dst, l.Name...)
		dst = binary.AppendUvarint(dst, uint64(len(l.Value)))
		dst = append(dst, l.Value...)
	}
	return dst, nil
}

// EachLabel calls f for every label of a canonical label set, in order, until f returns false. The strings share memory with key.
func EachLabel(key string, f func(name, value string) bool) {
	for len(key) > 0 {
		var name, value string
		if name, key = cutPrefixed(key); key == "" {
			return
		}
		value, key = cutPrefixed(key)
		if !f(name, value) {
			return
		}
	}
}

// LabelValue is the value of one label of a canonical label set, "" if it has none.
func LabelValue(key, name string) (value string) {
	EachLabel(key, func(n, v string) bool {
		if n == name {
			value = v
			return false
		}
		return n < name
	})
	return value
}

func cutPrefixed(s string) (head, rest string) {
	n, w := uvarintString(s)
	if w <= 0 || n > uint64(len(s)-w) {
		return "", ""
	}
	return s[w : w+int(n)], s[w+int(n):]
}

func uvarintString(s string) (uint64, int) {
	var x uint64
	for i := 0; i < len(s) && i < binary.MaxVarintLen64; i++ {
		b := s[i]
		if b < 0x80 {
			return x | uint64(b)<<(7*i), i + 1
		}
		x |= uint64(b&0x7f) << (7 * i)
	}
	return 0, 0
}

// unsafeString views bytes that are never written again as a string.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
