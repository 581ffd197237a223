package auth

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

func TestPasswordRules(t *testing.T) {
	for name, c := range map[string]struct {
		password string
		ok       bool
	}{
		"11 characters":           {strings.Repeat("a", 11), false},
		"12 characters":           {strings.Repeat("a", 12), true},
		"12 characters, 36 bytes": {strings.Repeat("€", 12), true},
		"128 characters":          {strings.Repeat("ü", 128), true},
		"129 characters":          {strings.Repeat("a", 129), false},
		"empty":                   {"", false},
		"not UTF-8":               {"aaaaaaaaaaaa\xff", false},
	} {
		err := CheckPassword(c.password)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%s: kind %v", name, millstream.KindOf(err))
		}
	}
}

func TestVerify(t *testing.T) {
	h, ctx := newHasher(), context.Background()
	stored, err := h.hash(ctx, "correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("stored form is %s", stored)
	}
	again, _ := h.hash(ctx, "correct horse battery")
	if again == stored {
		t.Error("two hashes of one password are equal: no salt")
	}
	for name, c := range map[string]struct {
		stored, password string
		want             bool
	}{
		"right":         {stored, "correct horse battery", true},
		"wrong":         {stored, "correct horse batterY", false},
		"empty":         {stored, "", false},
		"unknown user":  {"", "correct horse battery", false},
		"both empty":    {"", "", false},
		"a megabyte":    {stored, strings.Repeat("a", 1<<20), false},
		"other params":  {"$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$RdescudvJCsgt3ub+b5BHA", "x", false},
		"prefix of own": {stored, "correct horse", false},
	} {
		if got, err := h.verify(ctx, c.stored, c.password); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"plain", "$2b$10$abc", "$argon2id$v=19$m=99999999,t=1,p=1$c29tZXNhbHQ$RdescudvJCsgt3ub+b5BHA", "$argon2id$v=19$m=64,t=0,p=1$c29t$RdescudvJCsgt3ub+b5BHA"} {
		if ok, err := h.verify(ctx, bad, "x"); ok || err == nil {
			t.Errorf("damaged hash %q was taken", bad)
		}
	}
}

// An unknown user must cost what a known one costs. The bound is generous: the point is that no work is skipped.
func TestUnknownUserTakesAsLong(t *testing.T) {
	h, ctx := newHasher(), context.Background()
	stored, _ := h.hash(ctx, "correct horse battery")
	tries := map[string][2]string{
		"known": {stored, "wrong horse battery"}, "unknown": {"", "wrong horse battery"}, "unknown and empty": {"", ""}, "too long": {stored, strings.Repeat("a", 10_000)},
	}
	least, alike := map[string]time.Duration{}, false
	for round := 0; round < 50 && !alike; round++ { // more than five if the machine has other work
		alike = round >= 4
		for name, c := range tries {
			start := time.Now()
			_, _ = h.verify(ctx, c[0], c[1])
			took := time.Since(start)
			least[name] = min(cmp.Or(least[name], took), took)
		}
		for _, got := range least {
			alike = alike && got >= least["known"]/3 && got <= least["known"]*3
		}
	}
	if !alike {
		t.Errorf("one takes longer than others: %v", least)
	}
}

func TestHashingIsBounded(t *testing.T) {
	h := newHasher()
	for range maxHashing {
		if err := h.enter(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := h.hash(ctx, "correct horse battery"); millstream.KindOf(err) != millstream.Canceled {
			t.Errorf("one hash too many ran: %v", err)
		}
	})
	cancel()
	wg.Wait()
}

func BenchmarkPasswordHash(b *testing.B) {
	h := newHasher()
	for b.Loop() {
		if _, err := h.hash(context.Background(), "correct horse battery"); err != nil {
			b.Fatal(err)
		}
	}
}
