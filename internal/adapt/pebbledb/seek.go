package pebbledb

import "errors"

// Seeking is what a lookup needs of an iterator of either version of Pebble.
type Seeking interface {
	SeekPrefixGE(key []byte) bool
	ValueAndErr() ([]byte, error)
	Error() error
	Close() error
}

// GetBySeek looks up a key with an iterator, which it closes; value is in dst, as engine.Reader.Get
// returns it.
func GetBySeek[I Seeking](i I, key, dst []byte) (value []byte, found bool, err error) {
	dst = dst[:0]
	if found = i.SeekPrefixGE(key); found {
		value, err = i.ValueAndErr()
		dst = append(dst, value...)
	}
	return dst, found, errors.Join(err, i.Error(), i.Close())
}
