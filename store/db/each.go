package db

import "context"

// EachFootprint is Footprints for lists that are too long to be held: f gets one row after the other, as it comes.
func (q *Queries) EachFootprint(ctx context.Context, arg FootprintsParams, f func(FootprintsRow) error) error {
	rows, err := q.db.Query(ctx, footprints, arg.OrgID, arg.StreamID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r FootprintsRow
		if err := rows.Scan(&r.ID, &r.MaxTime, &r.Bytes); err != nil {
			return err
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return rows.Err()
}
