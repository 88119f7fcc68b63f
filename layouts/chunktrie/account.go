//go:build linux

package chunktrie

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/statelab/statelab/layout"
)

// An account's value: length of the nonce (and 0x80 if there is code), length of
// the balance, nonce, balance, hash of the code.

const hasCode = 0x80

var errAccount = errors.New("damaged node: its value is no account")

func appendAccount(dst []byte, a *layout.Account) []byte {
	var nonce [8]byte
	binary.BigEndian.PutUint64(nonce[:], a.Nonce)
	short := bytes.TrimLeft(nonce[:], "\x00")
	balance := bytes.TrimLeft(a.Balance[:], "\x00")
	flags := byte(len(short))
	if a.CodeHash != layout.EmptyCode {
		flags |= hasCode
	}
	dst = append(dst, flags, byte(len(balance)))
	dst = append(append(dst, short...), balance...)
	if flags&hasCode != 0 {
		dst = append(dst, a.CodeHash[:]...)
	}
	return dst
}

func parseAccount(value []byte) (a layout.Account, err error) {
	if len(value) < 2 {
		return a, errAccount
	}
	nonce, balance, code := int(value[0]&^hasCode), int(value[1]), 0
	if value[0]&hasCode != 0 {
		code = len(a.CodeHash)
	}
	value = value[2:]
	if nonce > 8 || balance > len(a.Balance) || len(value) != nonce+balance+code {
		return a, errAccount
	}
	for _, b := range value[:nonce] {
		a.Nonce = a.Nonce<<8 | uint64(b)
	}
	copy(a.Balance[len(a.Balance)-balance:], value[nonce:nonce+balance])
	a.CodeHash = layout.EmptyCode
	copy(a.CodeHash[:], value[nonce+balance:])
	return a, nil
}
