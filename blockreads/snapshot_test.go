package blockreads

import "testing"

func counted() (s Snapshot) {
	s.Reads[0][Filter] = Tally{Count: 1200, Bytes: 5 << 20}
	s.Reads[6][Data] = Tally{Count: 1000, Bytes: 4 << 20}
	s.Reads[6][Meta] = Tally{Count: 8, Bytes: 900}
	s.Untyped[LevelUnknown] = Tally{Count: 3, Bytes: 100}
	s.Background = Tally{Count: 70, Bytes: 1 << 20}
	s.RangeDeletions, s.TableOpens, s.DirectBytes, s.RemoteTables = 2, 2, 10<<20, 4
	return s
}

func TestTotalsLoseNothing(t *testing.T) {
	s := counted()
	if got, want := s.Total(), (Tally{Count: 2211, Bytes: 9<<20 + 1000}); got != want {
		t.Errorf("total %v, want %v", got, want)
	}
}

func TestSub(t *testing.T) {
	before := counted()
	after := counted()
	after.Reads[6][Data].Count += 5
	after.Untyped[3].Count++
	after.TableOpens++
	after.RemoteTables = 7

	var want Snapshot
	want.Reads[6][Data].Count = 5
	want.Untyped[3].Count = 1
	want.TableOpens = 1
	want.RemoteTables = 7 // of now
	if got := after.Sub(before); got != want {
		t.Errorf("the difference is %v, want %v", got, want)
	}
}

func TestString(t *testing.T) {
	const want = "" +
		"    level  filter   data  meta  untyped  reads      bytes\n" +
		"       L0   1,200      0     0        0  1,200  5,242,880\n" +
		"       L6       0  1,000     8        0  1,008  4,195,204\n" +
		"  unknown       0      0     0        3      3        100\n" +
		"      all   1,200  1,000     8        3  2,211  9,438,184\n" +
		"tables opened: 2; background reads: 70; remote tables, not counted: 4\n"
	if got := counted().String(); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
}

func TestPerGet(t *testing.T) {
	var s Snapshot
	s.Reads[0][Filter] = Tally{Count: 1, Bytes: 4096}
	s.Reads[6][Data] = Tally{Count: 12_340, Bytes: 50 << 20}
	const want = "" +
		"  level  filter  data  reads  bytes\n" +
		"     L0   0.000     0  0.000  0.410\n" +
		"     L6       0  1.23   1.23   5240\n" +
		"    all   0.000  1.23   1.23   5240\n" +
		"tables opened: 0; background reads: 0\n"
	if got := s.PerGet(10_000); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
}
