package query

import "github.com/millstream/millstream"

// Inside is how many queries of an organization run and wait.
func (e *Engine) Inside(org millstream.OrgID) int {
	e.gate.mu.Lock()
	defer e.gate.mu.Unlock()
	if t := e.gate.orgs[org]; t != nil {
		return t.inside
	}
	return 0
}
