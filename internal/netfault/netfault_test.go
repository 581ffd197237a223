package netfault

import (
	"bufio"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that repeats lines.
func echo(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

func TestLink(t *testing.T) {
	k := NewLink(t, echo(t))
	c, err := net.Dial("tcp", k.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	lines := bufio.NewReader(c)
	say := func(text string, wait time.Duration) (string, error) {
		_ = c.SetDeadline(time.Now().Add(wait))
		if text != "" {
			if _, err := io.WriteString(c, text+"\n"); err != nil {
				return "", err
			}
		}
		return lines.ReadString('\n')
	}
	expect := func(what, text, want string) {
		t.Helper()
		if got, err := say(text, time.Minute); got != want+"\n" {
			t.Fatalf("%s: %q, %v", what, got, err)
		}
	}
	expect("whole", "a", "a")
	for name, f := range map[string]Fault{"blackhole": Blackhole, "no replies": NoReplies, "no requests": NoRequests} {
		k.Set(f)
		if got, err := say(name, 50*time.Millisecond); !os.IsTimeout(err) {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
		k.Set(Whole) // what waited arrives
		expect(name, "", name)
	}
	k.Set(Cut)
	if _, err := say("b", 10*time.Second); err == nil || os.IsTimeout(err) {
		t.Fatalf("cut: %v", err)
	}
	if d, err := net.Dial("tcp", k.Addr); err == nil {
		if _, err := d.Read(make([]byte, 1)); err == nil {
			t.Error("a cut link takes connections")
		}
		_ = d.Close()
	}
	k.Set(Whole)
	if c, err = net.Dial("tcp", k.Addr); err != nil {
		t.Fatal(err)
	}
	lines.Reset(c)
	expect("again", "c", "c")
}
