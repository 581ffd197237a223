package store

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// Hit is something whose name fits a search. It is a document when it has an ID, else a stream.
type Hit struct {
	Name    string
	Rank    int // Match of the name; 0 is best
	ID      string
	Kind    DocumentKind
	Summary json.RawMessage
	Signal  millstream.Signal
}

// NoMatch is the rank of a name that does not fit.
const NoMatch = 5

// candidates is how many names the database picks for each one that is wanted; it cannot tell the beginning of a word.
const candidates = 5

// Search finds streams of logs and traces, views and dashboards that the author can see, by name, in no order: the best ones, and some more. The text is in lower
// case.
func (s *Store) Search(ctx context.Context, by Author, text string, most int) ([]Hit, error) {
	loose, prefix := likePatterns(text)
	docs, err := read(ctx, func(ctx context.Context) ([]db.SearchDocumentsRow, error) {
		return s.q.SearchDocuments(ctx, db.SearchDocumentsParams{OrgID: string(by.Org), Viewer: by.User, Loose: loose, Prefix: prefix, Most: int32(candidates * most)})
	})
	if err != nil {
		return nil, fail(findable(err), "search documents")
	}
	streams, err := read(ctx, func(ctx context.Context) ([]db.SearchStreamsRow, error) {
		return s.q.SearchStreams(ctx, db.SearchStreamsParams{OrgID: string(by.Org), ExceptSignal: int16(millstream.Metrics), Loose: loose, Prefix: prefix, Most: int32(candidates * most)})
	})
	if err != nil {
		return nil, fail(findable(err), "search streams")
	}
	out := make([]Hit, 0, len(docs)+len(streams))
	for _, d := range docs {
		out = append(out, Hit{Name: d.Name, Rank: Match(strings.ToLower(d.Name), text), ID: d.ID, Kind: DocumentKind(d.Kind), Summary: d.Summary})
	}
	for _, st := range streams {
		out = append(out, Hit{Name: st.Name, Rank: Match(strings.ToLower(st.Name), text), Signal: millstream.Signal(st.Signal)})
	}
	return out, nil
}

// Match ranks a name; both are in lower case: all of it, its beginning, the beginning of a word, a part, its characters in their order.
func Match(name, text string) int {
	switch {
	case name == text:
		return 0
	case strings.HasPrefix(name, text):
		return 1
	}
	at := strings.Index(name, text)
	for i := at; i > 0; {
		if strings.IndexByte(" ._-/:", name[i-1]) >= 0 {
			return 2
		}
		next := strings.Index(name[i+1:], text)
		if next < 0 {
			break
		}
		i += 1 + next
	}
	switch {
	case at >= 0:
		return 3
	case inOrder(name, text):
		return 4
	}
	return NoMatch
}

// inOrder says whether a name has the characters of a text in their order. The bytes of ASCII occur in no other character, so bytes of one are not mistaken.
func inOrder(name, text string) bool {
	for i := 0; i < len(name) && text != ""; {
		if text[0] < utf8.RuneSelf {
			if name[i] == text[0] {
				text = text[1:]
			}
			i++
			continue
		}
		_, n := utf8.DecodeRuneInString(text)
		at := strings.Index(name[i:], text[:n])
		if at < 0 {
			return false
		}
		i, text = i+at+n, text[n:]
	}
	return text == ""
}

// likePatterns are inOrder and strings.HasPrefix for LIKE.
func likePatterns(text string) (loose, prefix string) {
	var l, p strings.Builder
	l.WriteByte('%')
	for _, c := range text {
		if c == '%' || c == '_' || c == '\\' {
			l.WriteByte('\\')
			p.WriteByte('\\')
		}
		l.WriteRune(c)
		l.WriteByte('%')
		p.WriteRune(c)
	}
	return l.String(), p.String() + "%"
}
