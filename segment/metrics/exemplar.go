package metrics

import (
	"encoding/binary"

	"github.com/millstream/millstream"
)

// encodeExemplars makes the row that holds the exemplars of a series, which are sorted by time.
func encodeExemplars(es []millstream.Exemplar) Chunk {
	c := Chunk{Min: es[0].Time, Max: es[len(es)-1].Time, Count: len(es), Enc: EncExemplars}
	t := c.Min
	for _, e := range es {
		c.Data = binary.AppendVarint(c.Data, e.Time-t)
		c.Data = appendFloats(c.Data, e.Value)
		c.Data = binary.AppendUvarint(c.Data, uint64(len(e.Labels)))
		c.Data = append(c.Data, e.Labels...)
		t = e.Time
	}
	return c
}

func decodeExemplars(c *Chunk) ([]millstream.Exemplar, error) {
	d := decoder{b: c.Data}
	if c.Count < 0 || c.Count > len(c.Data) {
		return nil, errDamaged("exemplars")
	}
	out := make([]millstream.Exemplar, c.Count)
	t := c.Min
	for i := range out {
		t += d.varint()
		out[i] = millstream.Exemplar{Time: t, Value: d.float(), Labels: string(d.bytes(d.count(1)))}
	}
	if d.end() != nil {
		return nil, errDamaged("exemplars")
	}
	return out, nil
}
