package flat

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/statelab/statelab/layout"
)

// Keys are a letter and the hashes. The slots of an account lie together.
const (
	accountPrefix = 'a'
	slotPrefix    = 's'
	blockKey      = 'b' // the newest block's number
)

func appendAccountKey(dst []byte, account layout.Hash) []byte {
	return append(append(dst, accountPrefix), account[:]...)
}

func appendSlotKey(dst []byte, account, key layout.Hash) []byte {
	return append(append(append(dst, slotPrefix), account[:]...), key[:]...)
}

// slotRange are the keys of all slots of an account: from <= key < to.
func slotRange(account layout.Hash) (from, to []byte) {
	from = append([]byte{slotPrefix}, account[:]...)
	to = append([]byte{slotPrefix}, account[:]...)
	for i := len(to) - 1; ; i-- {
		if to[i]++; to[i] != 0 { // the prefix is not 0xff: it stops a carry
			return from, to[:i+1]
		}
	}
}

// appendAccount writes the nonce, the balance without leading zeros behind its
// length, and the code's hash unless there is none.
func appendAccount(dst []byte, a *layout.Account) []byte {
	balance := bytes.TrimLeft(a.Balance[:], "\x00")
	dst = binary.AppendUvarint(dst, a.Nonce)
	dst = append(append(dst, byte(len(balance))), balance...)
	if a.CodeHash != layout.EmptyCode {
		dst = append(dst, a.CodeHash[:]...)
	}
	return dst
}

var errRecord = errors.New("it is no record of an account")

func parseAccount(text []byte) (a layout.Account, err error) {
	nonce, n := binary.Uvarint(text)
	if n <= 0 || n == len(text) {
		return a, errRecord
	}
	length, rest := int(text[n]), text[n+1:]
	if length > len(a.Balance) || length > len(rest) {
		return a, errRecord
	}
	a.Nonce = nonce
	copy(a.Balance[len(a.Balance)-length:], rest[:length])
	switch rest = rest[length:]; len(rest) {
	case 0:
		a.CodeHash = layout.EmptyCode
	case len(a.CodeHash):
		copy(a.CodeHash[:], rest)
	default:
		return a, errRecord
	}
	return a, nil
}
