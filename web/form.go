package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"

	"github.com/millstream/millstream"
)

const (
	maxForm   = 64 << 10
	nonceSize = 16
)

// formToken is what a form carries to show that it is a page of ours: a nonce and its HMAC under a secret that only the browser's cookie has. The nonce makes
// every copy different, so that compressed replies tell nothing of it.
func (p *Pages) formToken(w http.ResponseWriter, r *http.Request) string {
	secret := p.cookie(r, formCookie)
	if !wellFormed(secret) {
		secret = rand.Text() + rand.Text()
		p.setCookie(w, r, formCookie, secret)
	}
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(append(nonce, formMAC(secret, nonce)...))
}

// form reads the form that was sent and checks its token. The values can be read from r.PostForm also when the token is wrong.
func (p *Pages) form(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			return millstream.Wrap(millstream.TooLarge, err, "the form is longer than %d bytes", maxForm)
		}
		return millstream.Wrap(millstream.Invalid, err, "the form cannot be read")
	}
	if !p.validToken(r, r.PostForm.Get("form_token")) {
		return &millstream.Error{Kind: millstream.Forbidden, Msg: "the form was not opened in this browser, or too long ago", Hint: "send it again; cookies must be allowed"}
	}
	return nil
}

// validToken says whether a token is one of formToken for this browser.
func (p *Pages) validToken(r *http.Request, token string) bool {
	secret := p.cookie(r, formCookie)
	sent, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && wellFormed(secret) && len(sent) == nonceSize+sha256.Size && hmac.Equal(sent[nonceSize:], formMAC(secret, sent[:nonceSize]))
}

func formMAC(secret string, nonce []byte) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	_, _ = m.Write(nonce) // never fails
	return m.Sum(nil)
}

// wellFormed refuses secrets that are not of our making and could be guessed.
func wellFormed(secret string) bool { return len(secret) == len(rand.Text())*2 }
