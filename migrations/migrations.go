// Package migrations holds the schema of the database as numbered steps. A step that was released is never edited; a change is a new step.
package migrations

import "embed"

// FS holds NNNNNN_name.up.sql and NNNNNN_name.down.sql.
//
//go:embed *.sql
var FS embed.FS
