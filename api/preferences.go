package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a machine without the database of zones knows their names as well

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
)

// preferenceKeeper keeps one set of preferences for a person and organization.
type preferenceKeeper interface {
	PreferencesID(ctx context.Context, by store.Author) (string, error)
	SetPreferences(ctx context.Context, by store.Author, base int64, d store.Draft, a auth.Entry) (store.Document, error)
}

// preferences are how somebody likes the pages of an organization. What is absent follows the default.
type preferences struct {
	Theme         string `json:"theme,omitempty" doc:"system, light or dark"`
	Density       string `json:"density,omitempty" doc:"compact, normal or comfortable"`
	TimeZone      string `json:"time_zone,omitempty" doc:"browser, or a name of the IANA database such as UTC or Europe/Vienna"`
	Clock         string `json:"clock,omitempty" doc:"24h or 12h"`
	WeekStart     string `json:"week_start,omitempty" doc:"monday, saturday or sunday"`
	SingleKeys    *bool  `json:"single_keys,omitempty" doc:"whether single letters are keys outside of text fields"`
	ReducedMotion string `json:"reduced_motion,omitempty" doc:"system, on or off"`
	Bytes         string `json:"bytes,omitempty" doc:"decimal (kB) or binary (KiB)"`
	DefaultStream string `json:"default_stream,omitempty" doc:"the log stream that the explorer opens with"`
	DefaultRange  string `json:"default_range,omitempty" doc:"the time range that pages open with, such as 15m or today"`
}

type keptPreferencesView struct {
	Version     int64       `json:"version" doc:"also in the header ETag; 0: none were set yet"`
	UpdatedAt   stamp       `json:"updated_at,omitzero"`
	Preferences preferences `json:"preferences"`
}

func (a *API) preferenceRoutes() []route {
	const path = v1 + "/preferences"
	reads, writes := need(auth.Query, auth.Viewer), need(auth.Administer, auth.Viewer)
	return []route{
		{method: "GET", path: path, policy: reads, handle: a.getPreferences, doc: operation{summary: "Your preferences in the organization", reply: keptPreferencesView{}}},
		{method: "PUT", path: path, policy: writes.audited("preferences.update"), handle: a.setPreferences, doc: operation{summary: "Replace your preferences", body: preferences{}, reply: keptPreferencesView{}}},
		{method: "GET", path: path + "/versions", policy: reads, handle: a.listPreferenceVersions, doc: operation{summary: "Former preferences", reply: versionsView{}}},
		{method: "POST", path: path + "/restore", policy: writes.audited("preferences.restore"), handle: a.restorePreferences, doc: operation{summary: "Undo: take former preferences again", body: restoreBody{}, reply: keptPreferencesView{}}},
	}
}

func (a *API) getPreferences(w http.ResponseWriter, r *http.Request) error {
	id, err := a.Documents.PreferencesID(r.Context(), authorOf(r))
	if millstream.KindOf(err) == millstream.NotFound {
		return replyPreferences(w, &store.Document{Body: json.RawMessage("{}")})
	}
	if err != nil {
		return err
	}
	d, err := a.Documents.Document(r.Context(), authorOf(r), store.Preferences, id)
	if err != nil {
		return err
	}
	return replyPreferences(w, &d)
}

func (a *API) setPreferences(w http.ResponseWriter, r *http.Request) error {
	var in preferences
	if err := read(r, &in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	lock, err := lockOf(r, nil)
	if err != nil {
		return err
	}
	made, err := draftOf("", false, nil, struct{}{}, in)
	if err != nil {
		return err
	}
	d, err := a.Documents.SetPreferences(r.Context(), authorOf(r), lock.base, made.Draft, entryOf(r, ""))
	if err != nil {
		return lock.failed(err)
	}
	return replyPreferences(w, &d)
}

func (a *API) listPreferenceVersions(w http.ResponseWriter, r *http.Request) error {
	id, err := a.Documents.PreferencesID(r.Context(), authorOf(r))
	if millstream.KindOf(err) == millstream.NotFound {
		return reply(w, http.StatusOK, versionsView{Versions: []versionView{}})
	}
	if err != nil {
		return err
	}
	return a.replyVersions(w, r, store.Preferences, id)
}

func (a *API) restorePreferences(w http.ResponseWriter, r *http.Request) error {
	id, err := a.Documents.PreferencesID(r.Context(), authorOf(r))
	if err != nil {
		return err
	}
	d, err := a.restore(r, store.Preferences, id)
	if err != nil {
		return err
	}
	return replyPreferences(w, &d)
}

func replyPreferences(w http.ResponseWriter, d *store.Document) error {
	view := keptPreferencesView{Version: d.Version}
	if d.Version > 0 {
		view.UpdatedAt = stamp{d.UpdatedAt}
	}
	if err := json.Unmarshal(d.Body, &view.Preferences); err != nil {
		return err
	}
	w.Header().Set("ETag", etag(d.Version))
	return reply(w, http.StatusOK, view)
}

// maxPreference is the longest free text among the preferences, in bytes.
const maxPreference = 200

func (p *preferences) check() error {
	for _, c := range []struct {
		field, value string
		allowed      []string
	}{
		{"theme", p.Theme, []string{"system", "light", "dark"}},
		{"density", p.Density, []string{"compact", "normal", "comfortable"}},
		{"clock", p.Clock, []string{"24h", "12h"}},
		{"week_start", p.WeekStart, []string{"monday", "saturday", "sunday"}},
		{"reduced_motion", p.ReducedMotion, []string{"system", "on", "off"}},
		{"bytes", p.Bytes, []string{"decimal", "binary"}},
	} {
		if c.value != "" && !slices.Contains(c.allowed, c.value) {
			return millstream.Errorf(millstream.Invalid, "%s is %q, it must be one of %s", c.field, c.value, strings.Join(c.allowed, ", "))
		}
	}
	for field, value := range map[string]string{"time_zone": p.TimeZone, "default_stream": p.DefaultStream, "default_range": p.DefaultRange} {
		if len(value) > maxPreference {
			return millstream.Errorf(millstream.Invalid, "%s has %d bytes, more than %d", field, len(value), maxPreference)
		}
	}
	if p.TimeZone == "" || p.TimeZone == "browser" {
		return nil
	}
	if _, err := time.LoadLocation(p.TimeZone); err != nil || p.TimeZone == "Local" {
		return &millstream.Error{Kind: millstream.Invalid, Msg: fmt.Sprintf("time_zone %q is not known", p.TimeZone), Hint: "write browser, UTC, or a name such as Europe/Vienna"}
	}
	return nil
}
