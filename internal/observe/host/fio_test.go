//go:build linux

package host

import (
	"strings"
	"testing"
)

const fioSays = `fio: this platform notes something first
{"fio version": "fio-3.33", "jobs": [{"jobname": "probe", "error": 0,
"read": {"iops": 21261.738262, "total_ios": 21283, "runtime": 1001,
"clat_ns": {"mean": 93377.94061, "percentile": {"50.000000": 84480, "99.000000": 264192}}}}]}`

func TestParseFio(t *testing.T) {
	p, version, err := parseFio([]byte(fioSays))
	if err != nil || version != "fio-3.33" || p.Reads != 21283 ||
		p.ReadsPerSecond != 21261.738262 || p.MeanNanos != 93377.94061 || p.P99Nanos != 264192 ||
		p.Seconds != 1.001 {
		t.Errorf("%+v, %q, %v", p, version, err)
	}

	for _, change := range [][2]string{
		{`"error": 0`, `"error": 5`},
		{`"iops": 21261.738262`, `"iops": 0`},
		{`"99.000000"`, `"98"`},
		{`"jobs": [`, `"jobs": [{},`},
		{`}]}`, ``},
	} {
		if p, _, err := parseFio([]byte(strings.Replace(fioSays, change[0], change[1],
			1))); err == nil {
			t.Errorf("%s: accepted as %+v", change[1], p)
		}
	}
}

func FuzzParseFio(f *testing.F) {
	f.Add([]byte(fioSays))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, _, err := parseFio(text); err == nil &&
			!(p.ReadsPerSecond > 0 && p.MeanNanos > 0 && p.P99Nanos > 0) {
			t.Errorf("accepted %+v", p)
		}
	})
}
