package timespec

import "time"

// civil is a wall clock.
type civil struct{ year, month, day, hour, minute, second, nano int }

func of(t time.Time) civil {
	y, m, d := t.Date()
	return civil{y, int(m), d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond()}
}

// wall is the moment of a wall clock that somebody wrote, which must exist in the calendar.
func wall(c civil, loc *time.Location, late bool) (time.Time, *fault) {
	switch {
	case c.month < 1 || c.month > 12 || c.day < 1 || c.day > daysIn(c.year, c.month):
		return time.Time{}, &fault{msg: "there is no such day"}
	case c.hour > 23 || c.minute > 59 || c.second > 59:
		return time.Time{}, &fault{msg: "there is no such time of day"}
	case c.year < firstYear || c.year > lastYear:
		return time.Time{}, tooFar()
	}
	return c.moment(loc, late).UTC(), nil
}

// moment is when a wall clock is. One that is skipped when clocks go forward is read with the offset before the change; of one that comes twice the earlier is
// taken, or with late the later. (time.Date leaves both open.)
func (c civil) moment(loc *time.Location, late bool) time.Time {
	u := time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, c.nano, time.UTC)
	offset := func(t time.Time) time.Duration {
		_, s := t.In(loc).Zone()
		return time.Duration(s) * time.Second
	}
	before, after := offset(u.Add(-24*time.Hour)), offset(u.Add(24*time.Hour))
	a, b := u.Add(-before), u.Add(-after)
	switch fitsA, fitsB := offset(a) == before, offset(b) == after; {
	case fitsA && fitsB && late == b.After(a):
		a = b
	case !fitsA && fitsB:
		a = b
	}
	return a.In(loc)
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// Years whose moments int64 nanoseconds can hold.
const firstYear, lastYear = 1678, 2261

func tooFar() *fault { return &fault{msg: "this time is too far away"} }

var sizes = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour}

// add moves by n units. Days and more keep the wall clock; a day that the month does not have becomes its last.
func add(t time.Time, n int, unit string, late bool) (time.Time, *fault) {
	if size, ok := sizes[unit]; ok {
		d := time.Duration(n) * size
		if d/size != time.Duration(n) {
			return t, tooFar()
		}
		t = t.Add(d)
	} else {
		c := of(t)
		switch unit {
		case "d":
			c.day += n
		case "w":
			c.day += 7 * n
		case "M":
			c.addMonths(n)
		case "y":
			c.addMonths(12 * n)
		}
		t = c.moment(t.Location(), late)
	}
	if y := t.Year(); y < firstYear || y > lastYear {
		return t, tooFar()
	}
	return t, nil
}

func (c *civil) addMonths(n int) {
	months := c.year*12 + c.month - 1 + n
	c.month = (months%12+12)%12 + 1
	c.year = (months - c.month + 1) / 12
	c.day = min(c.day, daysIn(c.year, c.month))
}

// floor is the start of the unit that t is in. Weeks begin on Monday.
func floor(t time.Time, unit string) time.Time {
	if size, ok := sizes[unit]; ok {
		_, s := t.Zone()
		offset := time.Duration(s) * time.Second
		return t.Add(offset).Truncate(size).Add(-offset)
	}
	c := of(t)
	c.hour, c.minute, c.second, c.nano = 0, 0, 0, 0
	switch unit {
	case "w":
		c.day -= (int(t.Weekday()) + 6) % 7
	case "M":
		c.day = 1
	case "y":
		c.month, c.day = 1, 1
	}
	return c.moment(t.Location(), false)
}

// ceil is the end of the unit that t is in, which is the start of the next.
func ceil(t time.Time, unit string) time.Time {
	start := floor(t, unit)
	if size, ok := sizes[unit]; ok {
		return start.Add(size)
	}
	c := of(start)
	switch unit {
	case "d":
		c.day++
	case "w":
		c.day += 7
	case "M":
		c.month++
	case "y":
		c.year++
	}
	return floor(c.moment(t.Location(), false), unit)
}
