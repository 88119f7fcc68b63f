package measure

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// LogEntry is one line of an HdrHistogram log.
type LogEntry struct {
	Tag        string // "" for service times
	Start, End time.Time
	Durations  *Histogram
}

// WriteLog writes an HdrHistogram log, format 1.3, with absolute times. Values
// are nanoseconds, the Interval_Max column milliseconds. Durations outside the
// histogram's range are told in a comment: the format has no place for them.
func WriteLog(w io.Writer, started time.Time, entries []LogEntry) error {
	log := hdrhistogram.NewHistogramLogWriter(w)
	for _, write := range []func() error{
		log.OutputLogFormatVersion,
		func() error { return log.OutputComment("[Values are nanoseconds]") },
		func() error { return log.OutputStartTime(started.UnixMilli()) },
		log.OutputLegend,
	} {
		if err := write(); err != nil {
			return fmt.Errorf("write latency log: %w", err)
		}
	}
	for _, e := range entries {
		if strings.ContainsAny(e.Tag, ", \r\n") {
			return fmt.Errorf("write latency log: tag %q holds a comma, a space or a line break", e.Tag)
		}
		if long, negative := e.Durations.TooLong(), e.Durations.Negative(); long+negative > 0 {
			outside := fmt.Sprintf("[Outside the range: Tag=%s too_long=%d negative=%d]", e.Tag, long, negative)
			if err := log.OutputComment(outside); err != nil {
				return fmt.Errorf("write latency log: %w", err)
			}
		}
		hdr := e.Durations.HDR()
		hdr.SetTag(e.Tag)
		hdr.SetStartTimeMs(e.Start.UnixMilli())
		hdr.SetEndTimeMs(e.End.UnixMilli())
		if err := log.OutputIntervalHistogram(hdr); err != nil {
			return fmt.Errorf("write latency log: %w", err)
		}
	}
	return nil
}
