package query

import "github.com/millstream/millstream"

// AppendObjects appends rows as a JSON array of objects. Fields without a value are left out.
func AppendObjects(dst []byte, r *Rows) []byte {
	dst = append(dst, '[')
	for i := range r.N {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendObject(dst, r.Columns, i)
	}
	return append(dst, ']')
}

func appendObject(dst []byte, cols []millstream.Column, i int) []byte {
	dst = append(dst, '{')
	first := true
	for j := range cols {
		c := &cols[j]
		if !c.IsValid(i) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(millstream.AppendJSONString(dst, c.Name), ':')
		dst = appendJSON(dst, c, i, quoted)
	}
	return append(dst, '}')
}
