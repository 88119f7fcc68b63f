package kvlog

import (
	"bytes"
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
)

// gethChecks follow what a log of go-ethereum has that shows whether it is whole: marks where a
// block begins and ends, the blocks' numbers, and the time of each line in seconds.
type gethChecks struct {
	began, ends     uint64 // marks
	headless        bool   // the first mark is an end: the log begins inside headBlock
	headBlock       uint64
	open            bool   // a block has begun and not ended
	number          uint64 // of the newest block
	hash            []byte
	unended         uint64 // blocks that had not ended when the next began
	gaps, missing   uint64 // between numbers of blocks, and how many numbers lie in them
	firstGap        [2]uint64
	again           uint64 // blocks whose number is not above the one before
	stamp           []byte // of the newest line
	earlier, atLine uint64 // lines with an earlier time than the line before; the first of them
	ended           bool   // the log was read to its end
}

// mark takes the beginning or the end of a block.
func (c *gethChecks) mark(begins bool, number uint64, hash []byte, line uint64) error {
	first := c.began+c.ends == 0
	if !begins {
		c.ends++
		switch {
		case first:
			c.headless, c.headBlock, c.number = true, number, number
			c.hash = append(c.hash[:0], hash...)
		case !c.open && number == c.number && bytes.Equal(hash, c.hash):
			return fmt.Errorf("block %d ends a second time: the line is there twice, or lines are "+
				"missing", number)
		case !c.open || number != c.number || !bytes.Equal(hash, c.hash):
			return fmt.Errorf("block %d ends, and the line where it begins is missing", number)
		}

		c.open = false
		return nil
	}

	c.began++
	switch {
	case first:
	case c.open && number == c.number && bytes.Equal(hash, c.hash):
		return fmt.Errorf("block %d begins a second time: the line is there twice, or lines are "+
			"missing", number)
	case c.open:
		c.unended++
	}

	if !first {
		switch {
		case number <= c.number:
			c.again++
		case number > c.number+1:
			if c.gaps++; c.gaps == 1 {
				c.firstGap = [2]uint64{c.number, number}
			}
			c.missing += number - c.number - 1
		}
	}

	c.open, c.number = true, number
	c.hash = append(c.hash[:0], hash...)
	return nil
}

// time takes the head of a line: its time is such as 2025/02/11 19:18:38, wherever it begins.
func (c *gethChecks) time(head []byte, line uint64) {
	const width = len("2025/02/11 19:18:38")
	at := bytes.IndexByte(head, '/') - len("2025")
	if at < 0 || at+width > len(head) {
		return
	}

	stamp := head[at : at+width]
	if stamp[7] != '/' || stamp[10] != ' ' || stamp[13] != ':' || stamp[16] != ':' {
		return
	}

	if bytes.Compare(stamp, c.stamp) < 0 {
		if c.earlier++; c.earlier == 1 {
			c.atLine = line
		}
	}

	c.stamp = append(c.stamp[:0], stamp...)
}

// doubts say what the lines show of parts that are missing or have changed places.
func (c *gethChecks) doubts() (all []string) {
	say := func(format string, values ...any) { all = append(all, fmt.Sprintf(format, values...)) }
	if c.headless {
		say("the log begins inside block %d", c.headBlock)
	}

	if c.ended && c.open && c.ends > 0 {
		say("the log ends inside block %d", c.number)
	}

	if c.began == 0 && c.ends == 0 {
		say("the log marks no blocks, so blocks that are missing cannot be seen")
	}

	if c.began > 0 && c.ends == 0 {
		say("the log marks no ends of blocks, so a block whose last calls are missing cannot be " +
			"seen")
	} else if c.unended > 0 {
		say("%s blocks do not end before the next begins: lines are missing",
			unit.Count(c.unended))
	}

	if c.gaps > 0 {
		say("%s missing, in %s: the first is between blocks %d and %d",
			unit.Plural(int(c.missing), "block"), unit.Plural(int(c.gaps), "gap"),
			c.firstGap[0], c.firstGap[1])
	}

	if c.again > 0 {
		say("%s blocks have no higher number than the block before them: the chain was "+
			"reorganized, or blocks are there twice or have changed places", unit.Count(c.again))
	}

	if c.earlier > 0 {
		say("%s lines have an earlier time than the line before, first line %d: lines have "+
			"changed places, or the clock was set back", unit.Count(c.earlier), c.atLine)
	}

	return all
}
