package web

import "net/http"

// ownership is the shell of the page that shows which node owns which segments, whose script asks the API.
func (p *Pages) ownership(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := looksAfter(v); err != nil {
		return err
	}
	return p.explorer("Ownership", "ownership.js")(w, r, v)
}
