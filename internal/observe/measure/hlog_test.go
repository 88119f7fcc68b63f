package measure

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestLogIsReadByHdrHistogram(t *testing.T) {
	started := time.UnixMilli(1_700_000_000_250)
	service, response := NewHistogram(), NewHistogram()
	for _, v := range durations(4, 10_000) {
		service.Add(v)
		response.Add(v / 2)
	}

	response.Add(MaxNanos + 1)
	response.Add(-3)
	entries := []LogEntry{
		{Start: started.Add(time.Second), End: started.Add(3 * time.Second), Durations: service},
		{
			Tag:       "response",
			Start:     started.Add(time.Second),
			End:       started.Add(4 * time.Second),
			Durations: response,
		},
	}

	var text bytes.Buffer
	if err := WriteLog(&text, started, entries); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"#[Histogram log format version 1.3]\n",
		"#[StartTime: 1700000000 ", "Tag=response too_long=1 negative=1]\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log lacks %q:\n%.400s", want, text.String())
		}
	}

	log := hdrhistogram.NewHistogramLogReader(&text)
	for _, e := range entries {
		got, err := log.NextIntervalHistogram()
		if err != nil || got == nil {
			t.Fatalf("entry %q: %v, error %v", e.Tag, got, err)
		}

		if got.Tag() != e.Tag || got.StartTimeMs() != e.Start.UnixMilli() ||
			got.EndTimeMs() != e.End.UnixMilli() {
			t.Errorf("entry %q came back as %q, %d..%d", e.Tag, got.Tag(), got.StartTimeMs(),
				got.EndTimeMs())
		}

		if !got.Equals(e.Durations.HDR()) {
			t.Errorf("entry %q came back with other counts", e.Tag)
		}

		if e.Tag == "" && got.ValueAtQuantile(99) != service.Quantile(0.99) {
			t.Errorf("p99 came back as %d, was %d", got.ValueAtQuantile(99), service.Quantile(0.99))
		}
	}

	if extra, err := log.NextIntervalHistogram(); extra != nil || err != nil {
		t.Errorf("a third entry: %v, error %v", extra, err)
	}
}

func TestLogRefusesATagThatBreaksIt(t *testing.T) {
	for _, tag := range []string{"a,b", "a b", "a\n"} {
		if err := WriteLog(&bytes.Buffer{}, time.Now(), []LogEntry{{
			Tag:       tag,
			Durations: NewHistogram(),
		}}); err == nil {
			t.Errorf("tag %q is accepted", tag)
		}
	}
}
