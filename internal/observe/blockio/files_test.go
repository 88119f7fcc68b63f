package blockio

import "testing"

func TestFileKind(t *testing.T) {
	for name, want := range map[string]kind{
		"/db/000012.sst":  table,
		"000013.blob":     values,
		"000014.log":      other,
		"x.sst":           other,
		"MANIFEST-000001": other,
	} {
		if got, _ := fileKind(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}
