//go:build browser

package e2e

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long the browser may take for anything.
const patience = 60 * time.Second

// browser is a headless Chromium with one tab, spoken to over its debugging pipe: JSON messages that end with a zero byte.
type browser struct {
	t       testing.TB
	out     io.Writer
	session string

	mu       sync.Mutex
	next     int
	waiting  map[int]chan reply
	loads    chan struct{} // a page has loaded
	faults   []string      // what the console, the security policy and failing files had to say
	requests []string      // every URL that was asked for
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

type message struct {
	ID     int
	Method string
	Params json.RawMessage
	reply
}

// open starts the browser; the test's end stops it.
func open(t testing.TB) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("this test needs Chromium: apt-get install --no-install-recommends chromium")
	}
	fromUs, toBrowser, err := os.Pipe()
	must(t, err)
	fromBrowser, toUs, err := os.Pipe()
	must(t, err)
	profile, err := os.MkdirTemp("", "mschromium") // not t.TempDir: the browser's children may write to it for a moment after its end
	must(t, err)
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, toUs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	_, _ = fromUs.Close(), toUs.Close()
	b := &browser{t: t, out: toBrowser, waiting: map[int]chan reply{}, loads: make(chan struct{}, 100)}
	read := make(chan struct{})
	go func() { defer close(read); b.read(fromBrowser) }()
	t.Cleanup(func() {
		_ = toBrowser.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = fromBrowser.Close()
		<-read
		for try := 0; os.RemoveAll(profile) != nil && try < 50; try++ {
			time.Sleep(100 * time.Millisecond)
		}
	})
	b.attach()
	return b
}

// attach takes the first tab and switches on the events that are listened to.
func (b *browser) attach() {
	b.t.Helper()
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	b.call("Target.getTargets", nil, &targets)
	for _, target := range targets.TargetInfos {
		if target.Type == "page" {
			var at struct{ SessionID string }
			b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &at)
			b.session = at.SessionID
			break
		}
	}
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
}

func (b *browser) read(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if c := b.waiting[m.ID]; c != nil && m.Method == "" {
			delete(b.waiting, m.ID)
			c <- m.reply
		} else {
			b.note(m)
		}
		b.mu.Unlock()
	}
}

// note keeps an event that matters. The caller holds mu.
func (b *browser) note(m message) {
	var p struct {
		Entry   struct{ Source, Level, Text, URL string }
		Request struct{ URL string }
		Details struct{ Text string } `json:"exceptionDetails"`
	}
	_ = json.Unmarshal(m.Params, &p)
	switch m.Method {
	case "Page.loadEventFired":
		b.loads <- struct{}{}
	case "Network.requestWillBeSent":
		b.requests = append(b.requests, p.Request.URL)
	case "Runtime.exceptionThrown":
		b.faults = append(b.faults, "exception: "+p.Details.Text)
	case "Log.entryAdded":
		// That a page itself answers 401 or 404 is noted as a failed load; it is what some are for.
		if p.Entry.Source != "network" || strings.Contains(p.Entry.URL, "/assets/") {
			b.faults = append(b.faults, fmt.Sprintf("%s %s: %s %s", p.Entry.Source, p.Entry.Level, p.Entry.Text, p.Entry.URL))
		}
	}
}

// call makes a call of the protocol and decodes its result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.mu.Lock()
	b.next++
	id, c := b.next, make(chan reply, 1)
	b.waiting[id] = c
	b.mu.Unlock()
	msg := map[string]any{"id": id, "method": method}
	if params != nil {
		msg["params"] = params
	}
	if b.session != "" {
		msg["sessionId"] = b.session
	}
	text, err := json.Marshal(msg)
	must(b.t, err)
	_, err = b.out.Write(append(text, 0))
	must(b.t, err)
	select {
	case r := <-c:
		if r.Error != nil {
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if result != nil {
			must(b.t, json.Unmarshal(r.Result, result))
		}
	case <-time.After(patience):
		b.t.Fatalf("%s: no answer", method)
	}
}

// loading does something that loads a page, and waits for it.
func (b *browser) loading(what string, do func()) {
	b.t.Helper()
	for len(b.loads) > 0 {
		<-b.loads
	}
	do()
	select {
	case <-b.loads:
	case <-time.After(patience):
		b.t.Fatalf("%s: no page loaded; it shows: %s", what, b.text("body"))
	}
}

func (b *browser) visit(url string) {
	b.t.Helper()
	b.loading(url, func() { b.call("Page.navigate", map[string]any{"url": url}, nil) })
}

// eval is the value of an expression in the page.
func (b *browser) eval(expression string, value any) {
	b.t.Helper()
	var r struct {
		Result  struct{ Value json.RawMessage }
		Details *struct{ Text string } `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &r)
	if r.Details != nil {
		b.t.Fatalf("%s: %s", expression, r.Details.Text)
	}
	if value != nil {
		must(b.t, json.Unmarshal(r.Result.Value, value))
	}
}

// text is what an element shows.
func (b *browser) text(selector string) (s string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector), &s)
	return s
}

func (b *browser) typeText(s string) {
	b.t.Helper()
	b.call("Input.insertText", map[string]any{"text": s}, nil)
}

// press presses and releases a key.
func (b *browser) press(key string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Space": 32}
	p := map[string]any{"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		p["type"], p["text"] = "keyDown", "\r"
	}
	b.call("Input.dispatchKeyEvent", p, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// look sets the width of the window and the theme.
func (b *browser) look(width, height int, theme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 720}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}}, nil)
}

// shot writes a picture of the page below the directory that MS_SHOTS names, if it does.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("MS_SHOTS")
	if dir == "" {
		return
	}
	var r struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": false}, &r)
	body, err := base64.StdEncoding.DecodeString(r.Data)
	must(b.t, err)
	must(b.t, os.WriteFile(dir+"/"+name+".png", body, 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
