package store

import "strconv"

// JobEffect is the key of the effect that guards a whole job which runs at most
// once. It goes when the job is removed, since ids are never used again.
func JobEffect(id int64) string { return PrivateKind + "job/" + strconv.FormatInt(id, 10) }
