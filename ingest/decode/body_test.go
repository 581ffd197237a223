package decode

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/millstream/millstream"
)

// pack compresses with the writer that open makes.
func pack[W io.WriteCloser](t testing.TB, data []byte, open func(io.Writer) W) []byte {
	t.Helper()
	var out bytes.Buffer
	w := open(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gz(t testing.TB, data []byte) []byte {
	return pack(t, data, func(w io.Writer) *gzip.Writer { return gzip.NewWriter(w) })
}

func zs(t testing.TB, data []byte) []byte {
	return pack(t, data, func(w io.Writer) *zstd.Encoder {
		e, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}

func zl(t testing.TB, data []byte) []byte {
	return pack(t, data, func(w io.Writer) *zlib.Writer { return zlib.NewWriter(w) })
}

func raw(t testing.TB, data []byte) []byte {
	return pack(t, data, func(w io.Writer) *flate.Writer {
		f, err := flate.NewWriter(w, 5)
		if err != nil {
			t.Fatal(err)
		}
		return f
	})
}

func framed(t testing.TB, data []byte) []byte {
	return pack(t, data, func(w io.Writer) *snappy.Writer { return snappy.NewBufferedWriter(w) })
}

// encodings are all content encodings a body may come in.
var encodings = []struct {
	name, encoding string
	pack           func(testing.TB, []byte) []byte
}{
	{"plain", "", func(_ testing.TB, b []byte) []byte { return b }},
	{"identity", "identity", func(_ testing.TB, b []byte) []byte { return b }},
	{"gzip", " GZIP ", gz},
	{"gzip members", "gzip", func(t testing.TB, b []byte) []byte { return append(gz(t, b[:len(b)/2]), gz(t, b[len(b)/2:])...) }},
	{"zstd", "zstd", zs},
	{"zstd frames", "zstd", func(t testing.TB, b []byte) []byte { return append(zs(t, b[:len(b)/2]), zs(t, b[len(b)/2:])...) }},
	{"zlib", "deflate", zl},
	{"raw deflate", "deflate", raw},
	{"snappy block", "snappy", func(_ testing.TB, b []byte) []byte { return snappy.Encode(nil, b) }},
	{"snappy frames", "snappy", framed},
}

func TestBodyRoundTrip(t *testing.T) {
	for _, e := range encodings {
		for _, size := range []int{0, 1, 1000, 300_000} {
			if size == 0 && e.name == "snappy frames" {
				continue // of nothing, the writer makes nothing
			}
			want := bytes.Repeat([]byte("a line of text, number 17\n"), size/26+1)[:size]
			for range 2 { // the second time with pooled memory
				got, err := Body(iotest.OneByteReader(bytes.NewReader(e.pack(t, want))), e.encoding, Limits{})
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%s of %d bytes: got %d bytes, %v", e.name, size, len(got), err)
				}
				Release(got)
			}
		}
	}
}

func TestBodyRefusesBombs(t *testing.T) {
	bomb := make([]byte, 8<<20)
	small := Limits{MaxDecoded: 4 << 20, MaxRatio: 1 << 40}
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			packed := e.pack(t, bomb)
			if _, err := Body(bytes.NewReader(packed), e.encoding, small); millstream.KindOf(err) != millstream.TooLarge {
				t.Errorf("over the decoded limit: %v", err)
			}
			if _, err := Body(bytes.NewReader(packed), e.encoding, Limits{MaxBody: int64(len(packed)) - 1}); millstream.KindOf(err) != millstream.TooLarge {
				t.Errorf("over the wire limit: %v", err)
			}
			if len(packed) < len(bomb)/100 {
				if _, err := Body(bytes.NewReader(packed), e.encoding, Limits{}); millstream.KindOf(err) != millstream.TooLarge {
					t.Errorf("over the ratio: %v", err)
				}
			}
		})
	}
	// A block that claims 4 GiB must be refused before memory is taken for it.
	claim := []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, 0x61}
	if _, err := Body(bytes.NewReader(claim), "snappy", Limits{}); millstream.KindOf(err) != millstream.TooLarge {
		t.Errorf("claimed length: %v", err)
	}
}

func TestBodyZstdWindow(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 3<<20)
	packed := pack(t, data, func(w io.Writer) *zstd.Encoder {
		e, err := zstd.NewWriter(w, zstd.WithWindowSize(32<<20))
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
	if _, err := Body(bytes.NewReader(packed), "zstd", Limits{MaxRatio: 1 << 40}); millstream.KindOf(err) != millstream.TooLarge {
		t.Errorf("a window of 32 MiB: %v", err)
	}
}

func TestBodyDamaged(t *testing.T) {
	data := bytes.Repeat([]byte("some text that repeats, and some that does not: 93fa81"), 50)
	for _, e := range encodings[2:] {
		packed := e.pack(t, data)
		for _, cut := range []int{1, 2, 5, len(packed) / 3, len(packed) - 1} {
			if got, err := Body(bytes.NewReader(packed[:cut]), e.encoding, Limits{}); err == nil && len(got) == len(data) {
				t.Errorf("%s cut at %d was read whole", e.name, cut)
			} else if err != nil && millstream.KindOf(err) != millstream.Invalid {
				t.Errorf("%s cut at %d: %v", e.name, cut, err)
			}
		}
		if _, err := Body(strings.NewReader("plain text that claims to be packed"), e.encoding, Limits{}); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%s of plain text: %v", e.name, err)
		}
	}
	if _, err := Body(strings.NewReader("x"), "br", Limits{}); millstream.KindOf(err) != millstream.Unsupported {
		t.Errorf("brotli: %v", err)
	}
}

func TestBodyReadErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want millstream.Kind
	}{
		{os.ErrDeadlineExceeded, millstream.Timeout},
		{context.Canceled, millstream.Canceled},
		{io.ErrUnexpectedEOF, millstream.Invalid},
		{errors.New("connection reset"), millstream.Invalid},
		{millstream.Errorf(millstream.TooLarge, "x"), millstream.TooLarge},
	} {
		for _, e := range encodings {
			packed := e.pack(t, []byte(strings.Repeat("text", 100)))
			r := io.MultiReader(bytes.NewReader(packed[:len(packed)/2]), iotest.ErrReader(c.err))
			if _, err := Body(r, e.encoding, Limits{}); millstream.KindOf(err) != c.want {
				t.Errorf("%s, reading fails with %v: %v", e.name, c.err, err)
			}
		}
	}
}

func BenchmarkBody(b *testing.B) {
	data := bytes.Repeat([]byte(`{"level":"info","message":"a line that is like the others","n":12345}`+"\n"), 10_000)
	for _, e := range encodings {
		packed := e.pack(b, data)
		b.Run(e.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				body, err := Body(bytes.NewReader(packed), e.encoding, Limits{MaxRatio: 1 << 40})
				if err != nil {
					b.Fatal(err)
				}
				Release(body)
			}
		})
	}
}
