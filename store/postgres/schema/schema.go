// Package schema has the tables of a Penstock in PostgreSQL, as versions that
// lead forward and back. A version is never changed once it was released.
package schema

import "embed"

// Files are the versions, named as package migrate reads them.
//
//go:embed *.sql
var Files embed.FS
