package blockbased

import (
	"bytes"
	"testing"
)

// TestMemberKey: the last family that a byte can name is named, and a key of one that a mix does
// not have is an error of its Get.
func TestMemberKey(t *testing.T) {
	if key := MemberKey(MaxMembers-1, []byte("k")); !bytes.Equal(key, []byte{255, 'k'}) {
		t.Errorf("%x", key)
	}

	func() {
		defer func() {
			if recover() == nil {
				t.Error("the index of a family is cut to a byte")
			}
		}()

		MemberKey(MaxMembers, []byte("k"))
	}()

	walk := new(mixWalker) // of a mix of no families
	for _, key := range [][]byte{nil, MemberKey(0, []byte("k")), MemberKey(200, nil)} {
		if _, _, err := walk.Get(key, true, nil); err == nil {
			t.Errorf("key %x: no error", key)
		}
	}
}
