package engine

import (
	"errors"
	"reflect"
)

// errNilTx refuses a transaction that is none.
var errNilTx = errors.New("the transaction is nil: begin one on the store's database, or use the call that takes none")

// CheckGuest refuses a caller's transaction that is nil, or a nil pointer of
// whatever type, as a variable holds it that was never set.
func CheckGuest(transaction any) error {
	if transaction == nil {
		return errNilTx
	}
	switch v := reflect.ValueOf(transaction); v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Chan, reflect.Slice, reflect.Interface:
		if v.IsNil() {
			return errNilTx
		}
	}
	return nil
}
