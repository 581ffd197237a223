package netfault

import (
	"bufio"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// echo answers every line with itself.
func echo(t *testing.T) string {
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
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					_, _ = c.Write([]byte(line))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// ask sends a line and waits a little for its echo.
func ask(c net.Conn) error {
	if _, err := c.Write([]byte("hello\n")); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, err := bufio.NewReader(c).ReadString('\n')
	return err
}

func TestModes(t *testing.T) {
	for name, c := range map[string]struct {
		mode         Mode
		silent       bool // nothing comes back, the connection stands
		reachesOther bool
	}{
		"pass":      {Pass, false, true},
		"blackhole": {Blackhole, true, false},
		"swallow":   {Swallow, true, true},
		"refuse":    {Refuse, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Listen(echo(t))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			p.Set(c.mode)
			conn, err := net.Dial("tcp", p.Addr())
			if err == nil {
				defer conn.Close()
				err = ask(conn)
			}
			switch {
			case c.mode == Pass && err != nil:
				t.Errorf("no echo: %v", err)
			case c.silent && !errors.Is(err, os.ErrDeadlineExceeded):
				t.Errorf("%v, want silence", err)
			case c.mode == Refuse && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)):
				t.Errorf("%v, want a broken connection", err)
			}
			if in, _ := p.Passed(); in > 0 != c.reachesOther {
				t.Errorf("%d bytes reached the target", in)
			}
			p.Set(Pass)
			again, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if err := ask(again); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
	}
}

func TestResetBreaksWhatIsThere(t *testing.T) {
	p, err := Listen(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := ask(conn); err != nil {
		t.Fatal(err)
	}
	p.Reset()
	if err := ask(conn); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want a broken connection", err)
	}
}
