package metrics

import (
	"encoding/binary"
	"hash/crc32"
	"iter"

	"github.com/millstream/millstream"
	"github.com/prometheus/prometheus/model/labels"
)

// What one node asks of another's segments, and what it answers: see MarshalBinary of Query, AppendSeries and DecodeSeries.

// MarshalBinary encodes a query for UnmarshalBinary.
func (q Query) MarshalBinary() ([]byte, error) {
	flags := byte(0)
	if q.KeysOnly {
		flags |= 1
	}
	dst := append(binary.AppendVarint(binary.AppendVarint(nil, q.Min), q.Max), flags, 0, 0) // two texts that are not used any more
	dst = binary.AppendUvarint(dst, uint64(len(q.Matchers)))
	for _, m := range q.Matchers {
		dst = appendString(appendString(append(dst, byte(m.Type)), m.Name), m.Value)
	}
	return dst, nil
}

// UnmarshalBinary decodes what MarshalBinary encoded; anything else is Invalid.
func (q *Query) UnmarshalBinary(b []byte) error {
	d := decoder{b: b}
	out := Query{Min: d.varint(), Max: d.varint()}
	flags := d.byte()
	out.KeysOnly = flags&1 != 0
	d.text()
	d.text()
	for range d.count(3) {
		kind := labels.MatchType(d.byte())
		m, err := labels.NewMatcher(kind, d.text(), d.text())
		if err == nil && kind > labels.MatchNotRegexp {
			err = errDamaged("the type of a matcher")
		}
		if err != nil {
			return millstream.Wrap(millstream.Invalid, err, "a matcher of a query of metrics: %v", err)
		}
		out.Matchers = append(out.Matchers, m)
	}
	if err := d.end(); err != nil {
		return err
	}
	*q = out
	return nil
}

func (d *decoder) text() string { return string(d.bytes(d.count(1))) }

// AppendSeries appends series as DecodeSeries reads them: keys front coded, chunks as they are stored, a checksum in front.
func AppendSeries(dst []byte, list []Series) []byte {
	head := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	chunks, keys := 0, 0
	for i := range list {
		chunks, keys = chunks+len(list[i].Chunks), keys+len(list[i].Key)
	}
	for _, n := range []int{len(list), chunks, keys} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	key, enc := "", encoder{}
	for i := range list {
		s := &list[i]
		n := sharedPrefix(key, s.Key)
		dst = appendString(binary.AppendUvarint(dst, uint64(n)), s.Key[n:])
		dst = binary.AppendUvarint(dst, uint64(len(s.Chunks)))
		last := int64(0)
		for _, c := range s.Chunks {
			if c.raw != nil {
				c = packFloats(&enc, c.raw)
			}
			dst = append(appendRow(dst, &c, last), c.Data...)
			last = c.Max
		}
		key = s.Key
	}
	binary.LittleEndian.PutUint32(dst[head:], crc32.Checksum(dst[head+4:], castagnoli))
	return dst
}

// appendRow appends what is known of a chunk beside its bytes, after a chunk of the same series that ended at last.
func appendRow(dst []byte, c *Chunk, last int64) []byte {
	dst = append(dst, byte(c.Enc))
	dst = binary.AppendUvarint(dst, uint64(c.Count))
	dst = binary.AppendVarint(dst, c.Min-last)
	dst = binary.AppendUvarint(dst, uint64(c.Max-c.Min))
	return binary.AppendUvarint(dst, uint64(len(c.Data)))
}

// row reads what appendRow wrote; ok is false if it cannot be of a chunk.
func (d *decoder) row(last int64) (c Chunk, size uint64, ok bool) {
	c = Chunk{Enc: Encoding(d.byte()), Count: int(d.uvarint())}
	c.Min = last + d.varint()
	c.Max = c.Min + int64(d.uvarint())
	size = d.uvarint()
	return c, size, !d.bad && c.Count >= 0 && c.Count <= maxSampleCount && size <= 1<<30 && c.Max >= c.Min
}

// DecodeSeries reads what AppendSeries wrote; the chunks share memory with b.
func DecodeSeries(b []byte) ([]Series, error) {
	if len(b) < 4 || crc32.Checksum(b[4:], castagnoli) != binary.LittleEndian.Uint32(b) {
		return nil, errDamaged("series of another node")
	}
	d := decoder{b: b[4:]}
	list, chunks := make([]Series, d.count(3)), make([]Chunk, 0, d.count(5))
	size := d.uvarint() // of all keys
	if size > 1<<30 {
		return nil, errDamaged("series of another node")
	}
	keys, ends := make([]byte, 0, size), make([]int, len(list))
	from := 0
	for i := range list {
		shared := d.uvarint()
		rest := d.bytes(d.count(1))
		if shared > uint64(len(keys)-from) {
			return nil, errDamaged("the key of a series")
		}
		previous := keys[from:][:shared]
		from = len(keys)
		keys = append(append(keys, previous...), rest...)
		ends[i] = len(keys)
		first, last := len(chunks), int64(0)
		for range d.count(5) {
			c, size, ok := d.row(last)
			if !ok {
				return nil, errDamaged("a chunk of a series")
			}
			c.Data, last = d.bytes(int(size)), c.Max
			chunks = append(chunks, c)
		}
		list[i].Chunks = chunks[first:len(chunks):len(chunks)]
	}
	if d.end() != nil {
		return nil, errDamaged("series of another node")
	}
	text, from := string(keys), 0
	for i, end := range ends {
		list[i].Key, from = text[from:end], end
		list[i].Name = millstream.LabelValue(list[i].Key, nameLabel)
	}
	return list, nil
}

// Pieces divides series into lists of about size bytes, and a series of more as well; MergeSeries of them, in order, is the whole.
func Pieces(list []Series, size int) iter.Seq[[]Series] {
	return func(yield func([]Series) bool) {
		var piece []Series
		n := 0
		for _, s := range list {
			rest := s.Chunks
			for first := true; first || len(rest) > 0; first = false {
				n += len(s.Key) + 16
				k := 0
				for k < len(rest) && (k == 0 || n < size) {
					n += int(rest[k].size())
					k++
				}
				s.Chunks, rest = rest[:k:k], rest[k:]
				piece = append(piece, s)
				if n < size {
					continue
				}
				if !yield(piece) {
					return
				}
				piece, n = nil, 0
			}
		}
		if len(piece) > 0 {
			yield(piece)
		}
	}
}
