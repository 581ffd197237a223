package store

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/millstream/millstream/store/db"
)

// A manifest's data is a byte for its version, 8 bytes of XXH64 over the rest, and a zstd frame. In the frame are the number of rows and then their columns, one after
// the other, numbers as varints. What all rows share (organization, stream, signal, being live) is not in it.
const (
	manifestVersion = 1
	manifestHeader  = 9
	maxSealed       = 10_000 // segments of a manifest: a few MB when unpacked
	maxUnpacked     = 64 << 20
	idBytes         = 32 // of a row's two ids
)

// errDamaged means that a manifest is not what was written.
var errDamaged = errors.New("the manifest is damaged")

var (
	manifestEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	manifestDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUnpacked))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// fitting is how many of the first rows one manifest takes: twice what they hold could be unpacked. Names of indexed fields may be 50 kB a row.
func fitting(rows []db.Segment) int {
	size := 0
	for i := range rows {
		r := &rows[i]
		size += 512 + len(r.DataKey) + len(r.IndexKey) + len(r.DataSum) + len(r.IndexSum) + len(r.NodeID) // 512: ids and numbers
		for _, f := range r.IndexFields {
			size += len(f) + binary.MaxVarintLen32
		}
		if size > maxUnpacked/2 {
			return i
		}
	}
	return len(rows)
}

// packRows is the data of a manifest of rows.
func packRows(rows []db.Segment) []byte {
	p := binary.AppendUvarint(nil, uint64(len(rows)))
	for i := range rows {
		id := uuid.MustParse(rows[i].ID) // the database gave it
		p = append(p, id[:]...)
	}
	for i := range rows {
		wal := uuid.Nil
		if w := rows[i].WalID; w != nil {
			wal = uuid.MustParse(*w)
		}
		p = append(p, wal[:]...)
	}
	for _, column := range numbers {
		last := int64(0)
		for i := range rows {
			v := column.get(&rows[i])
			p = binary.AppendVarint(p, v-last) // wraps around, as does its inverse
			last = v
		}
	}
	for _, column := range textColumns {
		for i := range rows {
			p = appendText(p, column.short(*column.of(&rows[i]), rows[i].ID))
		}
	}
	for i := range rows {
		p = binary.AppendUvarint(p, uint64(len(rows[i].IndexFields)))
		for _, field := range rows[i].IndexFields {
			p = appendText(p, field)
		}
	}
	return frame(p)
}

// frame compresses the columns and puts the header before them.
func frame(p []byte) []byte {
	out := append(make([]byte, 0, manifestHeader+len(p)/2), manifestVersion, 0, 0, 0, 0, 0, 0, 0, 0)
	out = manifestEncoder().EncodeAll(p, out)
	binary.LittleEndian.PutUint64(out[1:], xxhash.Sum64(out[manifestHeader:]))
	return out
}

// unpackRows gives back the rows of a manifest's data. An error is errDamaged, or says that the version is unknown.
func unpackRows(m db.ManifestDataRow) ([]db.Segment, error) {
	if len(m.Data) < manifestHeader {
		return nil, errDamaged
	}
	if v := m.Data[0]; v != manifestVersion {
		return nil, fmt.Errorf("the manifest has version %d, this program knows %d: is it older than the database?", v, manifestVersion)
	}
	if binary.LittleEndian.Uint64(m.Data[1:]) != xxhash.Sum64(m.Data[manifestHeader:]) {
		return nil, errDamaged
	}
	p, err := manifestDecoder().DecodeAll(m.Data[manifestHeader:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	r := unpacker{p: p}
	n := r.uvarint()
	if n > maxSealed || n > uint64(len(r.p))/idBytes { // before there is memory for them
		return nil, errDamaged
	}
	rows := make([]db.Segment, n)
	for i := range rows {
		rows[i] = db.Segment{ID: r.uuid().String(), OrgID: m.OrgID, StreamID: m.StreamID, Signal: m.Signal, State: "live"}
	}
	for i := range rows {
		if wal := r.uuid(); wal != uuid.Nil {
			text := wal.String()
			rows[i].WalID = &text
		}
	}
	for _, column := range numbers {
		last := int64(0)
		for i := range rows {
			last += r.varint()
			column.set(&rows[i], last)
		}
	}
	for _, column := range textColumns {
		last := ""
		for i := range rows {
			text := column.long(r.text(), rows[i].ID)
			if text == last {
				text = last // one string for all that are equal: nodes
			}
			*column.of(&rows[i]), last = text, text
		}
	}
	for i := range rows {
		rows[i].IndexFields = r.texts()
	}
	if r.bad || len(r.p) > 0 {
		return nil, errDamaged
	}
	return rows, nil
}

// numbers are the columns of numbers, in the order of the encoding.
var numbers = []struct {
	get func(*db.Segment) int64
	set func(*db.Segment, int64)
}{
	whole(func(r *db.Segment) *int64 { return &r.MinTime }),
	{func(r *db.Segment) int64 { return r.MaxTime - r.MinTime }, func(r *db.Segment, v int64) { r.MaxTime = r.MinTime + v }},
	whole(func(r *db.Segment) *int64 { return &r.RowCount }),
	whole(func(r *db.Segment) *int16 { return &r.Level }),
	whole(func(r *db.Segment) *int64 { return &r.SchemaVersion }),
	whole(func(r *db.Segment) *int64 { return &r.DataOffset }),
	whole(func(r *db.Segment) *int64 { return &r.DataLength }),
	whole(func(r *db.Segment) *int64 { return &r.IndexOffset }),
	whole(func(r *db.Segment) *int64 { return &r.IndexLength }),
	whole(func(r *db.Segment) *int16 { return &r.IndexVersion }),
	whole(func(r *db.Segment) *int64 { return &r.WalFrom }),
	whole(func(r *db.Segment) *int64 { return &r.WalTo }),
	whole(func(r *db.Segment) *int64 { return &r.Incarnation }),
	{func(r *db.Segment) int64 { return r.CreatedAt.UnixMicro() }, func(r *db.Segment, v int64) { r.CreatedAt = time.UnixMicro(v).UTC() }},
}

func whole[T int16 | int64](of func(*db.Segment) *T) (c struct {
	get func(*db.Segment) int64
	set func(*db.Segment, int64)
}) {
	c.get = func(r *db.Segment) int64 { return int64(*of(r)) }
	c.set = func(r *db.Segment, v int64) { *of(r) = T(v) }
	return c
}

// textColumns are the columns of text. A key holds its segment's id, which is left out; a checksum is hex, which is halved.
var textColumns = []struct {
	of    func(*db.Segment) *string
	short func(text, id string) string
	long  func(text, id string) string
}{
	{func(r *db.Segment) *string { return &r.DataKey }, withoutID, withID},
	{func(r *db.Segment) *string { return &r.IndexKey }, withoutID, withID},
	{func(r *db.Segment) *string { return &r.DataSum }, fromHex, toHex},
	{func(r *db.Segment) *string { return &r.IndexSum }, fromHex, toHex},
	{func(r *db.Segment) *string { return &r.NodeID }, as, as},
}

// nul marks what was shortened: the database's text never holds it.
const nul = "\x00"

func as(text, _ string) string         { return text }
func withoutID(text, id string) string { return strings.ReplaceAll(text, id, nul) }
func withID(text, id string) string    { return strings.ReplaceAll(text, nul, id) }

func fromHex(text, _ string) string {
	if raw, err := hex.DecodeString(text); err == nil && hex.EncodeToString(raw) == text {
		return nul + string(raw)
	}
	return text
}

func toHex(text, _ string) string {
	if raw, found := strings.CutPrefix(text, nul); found {
		return hex.EncodeToString([]byte(raw))
	}
	return text
}

func appendText(p []byte, text string) []byte {
	return append(binary.AppendUvarint(p, uint64(len(text))), text...)
}

// unpacker reads what packRows wrote; once bad, it gives zeros.
type unpacker struct {
	p   []byte
	bad bool
}

func (r *unpacker) fail() {
	r.bad, r.p = true, nil
}

func (r *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(r.p)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *unpacker) varint() int64 {
	v, n := binary.Varint(r.p)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *unpacker) take(n uint64) []byte {
	if n > uint64(len(r.p)) {
		r.fail()
		return nil
	}
	out := r.p[:n]
	r.p = r.p[n:]
	return out
}

func (r *unpacker) uuid() (id uuid.UUID) {
	copy(id[:], r.take(16))
	return id
}

// texts is never nil, as the database's arrays are not.
func (r *unpacker) texts() []string {
	out := []string{}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		out = append(out, r.text())
	}
	return out
}

func (r *unpacker) text() string { return string(r.take(r.uvarint())) }
