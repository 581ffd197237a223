package search

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

func TestAt(t *testing.T) {
	for marked, want := range map[string]Place{
		"|":                       {From: 0, To: 0, First: true},
		"lev|":                    {From: 0, To: 3, Prefix: "lev", First: true},
		"le|vel:x":                {From: 0, To: 5, Prefix: "le", First: true},
		"timeout le|":             {From: 8, To: 10, Prefix: "le"},
		"timeout -le|":            {From: 9, To: 11, Prefix: "le"},
		"(le|":                    {From: 1, To: 3, Prefix: "le"},
		"level:|":                 {From: 6, To: 6, Field: "level", First: true},
		"level:er|ror x":          {From: 6, To: 11, Field: "level", Prefix: "er", First: true},
		"not level:(error or wa|": {From: 20, To: 22, Field: "level", Prefix: "wa"},
		"level:(error) wa|":       {From: 14, To: 16, Prefix: "wa"},
		"status >= 5|":            {From: 10, To: 11, Field: "status", Prefix: "5", First: true},
		"status!=5|":              {From: 8, To: 9, Field: "status", Prefix: "5", First: true},
		`"service name":ch|`:      {From: 15, To: 17, Field: "service name", Prefix: "ch", First: true},
		`"connection re|`:         {From: 0, To: 14, Prefix: `"connection re`, Quoted: true, First: true},
		`level:"er|`:              {From: 6, To: 9, Field: "level", Prefix: `"er`, First: true},
		`level:"er|ror" x`:        {From: 6, To: 13, Field: "level", Prefix: `"er`, First: true},
		"status:[1|":              {From: 7, To: 9, Field: "status", Prefix: "[1", Quoted: true, First: true},
		"message:/a b|":           {From: 8, To: 12, Field: "message", Prefix: "/a b", Quoted: true, First: true},
		"größe:5 ü|":              {From: 8, To: 9, Prefix: "ü"},
		"level:error |":           {From: 12, To: 12},
	} {
		before, after, _ := strings.Cut(marked, "|")
		if got := At(before+after, len([]rune(before))); got != want {
			t.Errorf("%s\n got %+v\nwant %+v", marked, got, want)
		}
	}
}

func labels(ps []Proposal) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Apply)
	}
	return strings.Join(out, " ")
}

func TestNames(t *testing.T) {
	if got := labels(Names(Place{Prefix: "us"}, testFields(), 50)); got != "User: user: status:" {
		t.Errorf("%s", got)
	}
	if got := labels(Names(Place{Prefix: "odd"}, testFields(), 50)); got != `"odd \"name\"":` {
		t.Errorf("%s", got)
	}
	if got := labels(Names(Place{Prefix: "no", First: true}, testFields(), 50)); got != "not " {
		t.Errorf("%q", got)
	}
	if got := labels(Names(Place{Prefix: "a"}, nil, 50)); got != "_timestamp: and " {
		t.Errorf("%q", got)
	}
}

// A stream may have very many fields.
func TestNamesOfManyFields(t *testing.T) {
	var list []millstream.Field
	for i := range 50_000 {
		list = append(list, millstream.Field{Name: fmt.Sprintf("attribute.%05d", i), Type: millstream.String})
	}
	began := time.Now()
	got := Names(Place{Prefix: "49"}, list, 50)
	if len(got) != 50 || got[0].Label != "attribute.00049" {
		t.Errorf("%d: %+v", len(got), got[0])
	}
	q, err := Parse(strings.Repeat("atribute.1:x ", 1000))
	if err != nil {
		t.Fatal(err)
	}
	if c := q.Compile(list, now); len(c.Warnings) != 1 {
		t.Errorf("%q", c.Warnings)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}
