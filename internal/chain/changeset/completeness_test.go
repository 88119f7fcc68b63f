package changeset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/frames"
	"github.com/statelab/statelab/internal/base/mutilate"
)

// imported is what an import of a set tells: what it warns of the set, and of what was written.
func imported(set fstest.MapFS) (got mutilate.Outcome) {
	s, err := Open(set, ".", "")
	if err != nil {
		return mutilate.Outcome{Err: err}
	}

	defer s.Close()
	var out bytes.Buffer
	if err := Write(&out, s, "", nil); err != nil {
		return mutilate.Outcome{Err: err}
	}

	c, err := OpenContainer(bytes.NewReader(out.Bytes()), int64(out.Len()), "set.slcs")
	if err != nil {
		return mutilate.Outcome{Err: err}
	}

	return told(c.Info())
}

// told is what a set's user sees of its completeness.
func told(info Info) (got mutilate.Outcome) {
	for _, warnings := range [][]engine.Warning{LeftOut(info), NotChecked(info), Missing(info)} {
		for _, w := range warnings {
			got.Told += w.Text + "; "
		}
	}
	return got
}

func concatenated(a, b []byte) []byte { return append(bytes.Clone(a), b...) }

func TestMutilatedIAVLBench(t *testing.T) {
	var messages [][]byte
	for i := range 20 {
		messages = append(messages, storeKVPair(pair{"bank", fmt.Sprintf("k%02d", i), "v", false}))
	}

	info := []byte(`{"versions":2,"store_names":["bank"]}`)
	const notSeen = "not checked: the format counts versions, not changes"
	mutilate.Demand(t, messages, 10, concatenated, func(messages [][]byte) mutilate.Outcome {
		return imported(fstest.MapFS{"changeset_info.json": {Data: info},
			"000000001.delimpb": {Data: delimited(messages...)}, "000000002.delimpb": {}})
	}, map[string]string{
		mutilate.Dropped:   notSeen,
		mutilate.Doubled:   notSeen,
		mutilate.Merged:    "refused: two keys in a message",
		mutilate.Reordered: notSeen,
		mutilate.Sampled:   notSeen,
	})

	// Versions are counted, and each is in a file that is named after it.
	var versions []string
	for i := range 20 {
		versions = append(versions, fmt.Sprintf("%09d.delimpb", i+1))
	}

	mutilate.Demand(t, versions, 10, func(a, _ string) string { return a },
		func(versions []string) mutilate.Outcome {
			set := fstest.MapFS{"changeset_info.json": {Data: []byte(
				`{"versions":20,"store_names":["bank"]}`)}}
			for _, version := range versions {
				if _, twice := set[version]; twice {
					version = "copy of " + version
				}
				set[version] = &fstest.MapFile{Data: delimited(messages[0])}
			}

			s, err := Open(set, ".", "")
			if err != nil {
				t.Fatal(err)
			}

			// What is warned of before the versions are read, and their own names.
			got := told(s.Info())
			got.Err = imported(set).Err
			return got
		}, map[string]string{
			mutilate.Dropped: "refused: 000000011.delimpb",
			mutilate.Doubled: "1 file left out, since the format iavl-bench does not know such " +
				"names",
			mutilate.Merged: "refused: 000000012.delimpb",
			// the folder has no order: versions are known by their names
			mutilate.Reordered: notSeen,
			mutilate.Sampled:   "refused: 000000002.delimpb",
		})
}

func TestMutilatedNodes(t *testing.T) {
	var nodes [][]byte
	for i := range 20 {
		nodes = append(nodes, node("bank", fmt.Sprintf("k%02d", i), "v", false, uint64(7+i/10)))
	}

	merged := func(a, b []byte) []byte {
		text := concatenated(a[4:], b[4:])
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
	}

	imports := func(nodes [][]byte) mutilate.Outcome {
		return imported(fstest.MapFS{"00000007-00000008.pb.gz": {
			Data: gzipped(t, bytes.Join(nodes, nil))}})
	}

	const notSeen = "not checked: the format numbers blocks, not changes"
	mutilate.Demand(t, nodes, 12, merged, imports, map[string]string{
		mutilate.Dropped:   notSeen,
		mutilate.Doubled:   notSeen,
		mutilate.Merged:    "refused: two keys in a message",
		mutilate.Reordered: notSeen,
		mutilate.Sampled:   notSeen,
	})

	between := imports(append(append(append([][]byte{}, nodes[:9]...), nodes[10], nodes[9]),
		nodes[11:]...))
	if between.Err == nil || !strings.Contains(between.Err.Error(), "block 7 after block 8") {
		t.Errorf("nodes of two blocks that have changed places: %v", between.Err)
	}
}

func TestMutilatedCronos(t *testing.T) {
	var versions [][]byte
	for i := range 20 {
		versions = append(versions, cronosVersion(uint64(10+i),
			append(cronosPair("a", "1", 0), cronosPair("b", "2", 0)...)))
	}

	merged := func(a, b []byte) []byte {
		return cronosVersion(binary.LittleEndian.Uint64(a), concatenated(a[16:], b[16:]))
	}

	mutilate.Demand(t, versions, 10, merged, func(versions [][]byte) mutilate.Outcome {
		return imported(fstest.MapFS{"bank/block-10": {Data: bytes.Join(versions, nil)}})
	}, map[string]string{
		mutilate.Dropped:   "1 version missing between 10 and 29",
		mutilate.Doubled:   "refused: version 20 after version 20",
		mutilate.Merged:    "refused: version 20: key 61 of store 0 comes after key 62",
		mutilate.Reordered: "refused: version 20 after version 21",
		mutilate.Sampled:   "9 versions missing between 10 and 20",
	})

	// Changes of one version are sorted, and its size counts their bytes.
	var changes [][]byte
	for i := range 20 {
		changes = append(changes, cronosPair(fmt.Sprintf("k%02d", i), "v", 0))
	}

	const notSeen = "changes that are missing with their bytes in the version's size, cannot be " +
		"seen"
	mutilate.Demand(t, changes, 10, concatenated, func(changes [][]byte) mutilate.Outcome {
		return imported(fstest.MapFS{"bank/block-10": {
			Data: cronosVersion(10, bytes.Join(changes, nil))}})
	}, map[string]string{
		mutilate.Dropped:   notSeen,
		mutilate.Doubled:   "refused: key 6b3130 of store 0 comes after key 6b3130",
		mutilate.Merged:    notSeen, // two records one behind the other are two records
		mutilate.Reordered: "refused: comes after key",
		mutilate.Sampled:   notSeen,
	})
}

// diffOf is a transaction that sets a balance, in the form of debug_traceBlockByNumber.
func diffOf(tx int) string {
	return fmt.Sprintf(`{"txHash":"0x%02x","result":{"pre":{},"post":{"0x%040x":`+
		`{"balance":"0x1"}}}}`, tx+1, tx+1)
}

func TestMutilatedDiffs(t *testing.T) {
	var transactions []string
	for i := range 20 {
		transactions = append(transactions, diffOf(i))
	}

	imports := func(transactions []string) mutilate.Outcome {
		return imported(fstest.MapFS{"7.json": {
			Data: []byte("[" + strings.Join(transactions, ",") + "]")}})
	}

	const notSeen = "not checked: a file of state diffs does not say how many transactions"
	mutilate.Demand(t, transactions, 10,
		func(a, b string) string { return strings.TrimSuffix(a, "}") + "," + b[1:] }, imports,
		map[string]string{
			mutilate.Dropped:   notSeen,
			mutilate.Doubled:   "refused: is there twice, also as number 10 of the block",
			mutilate.Merged:    `refused: the field "txHash" is there twice`,
			mutilate.Reordered: notSeen,
			mutilate.Sampled:   notSeen,
		})

	// Blocks are files.
	var blocks []string
	for i := range 20 {
		blocks = append(blocks, fmt.Sprintf("%d.json", 100+i))
	}

	mutilate.Demand(t, blocks, 10, func(a, _ string) string { return a },
		func(blocks []string) mutilate.Outcome {
			set := fstest.MapFS{}
			for i, block := range blocks {
				if _, twice := set[block]; twice {
					block += ".gz"
				}
				set[block] = &fstest.MapFile{Data: []byte("[" + diffOf(i) + "]")}
			}
			return imported(set)
		}, map[string]string{
			mutilate.Dropped:   "1 version missing between 100 and 119",
			mutilate.Doubled:   "refused: 110.json and 110.json.gz begin with the same block",
			mutilate.Merged:    "1 version missing between 100 and 119",
			mutilate.Reordered: notSeen,
			mutilate.Sampled:   "9 versions missing between 100 and 110",
		})
}

// The records of statelab's own form are frames. Its index knows each, and each has a checksum.
func TestMutilatedContainers(t *testing.T) {
	var set bytes.Buffer
	w, err := NewWriter(&set, Header{Order: OrderInsertion})
	if err != nil {
		t.Fatal(err)
	}

	store, err := w.Store("bank")
	if err != nil {
		t.Fatal(err)
	}

	for version := range int64(40) {
		value := bytes.Repeat([]byte{byte(version)}, targetFrameBytes/2+int(version))
		if err := w.Begin(version + 1); err != nil {
			t.Fatal(err)
		}

		if err := w.Change(Change{Store: store, Key: []byte{1}, Value: value}); err != nil {
			t.Fatal(err)
		}

		if err := w.End(Roots{}); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	whole := set.Bytes()
	at := len(magic)
	var cut [][]byte // header, changes, footer
	for kind := byte(0); kind != footerFrame; {
		var head frames.Head
		copy(head[:], whole[at:])
		stored, _ := head.Sizes()
		end := at + frameHeadBytes + int(stored)
		cut, at, kind = append(cut, whole[at:end]), end, head.Kind()
	}

	header, footer := cut[0], append(bytes.Clone(cut[len(cut)-1]), whole[at:]...)
	const refused = "refused: set.slcs: offset "
	mutilate.Demand(t, cut[1:len(cut)-1], 9,
		func(a, b []byte) []byte { return concatenated(a, b[frameHeadBytes:]) },
		func(changes [][]byte) (got mutilate.Outcome) {
			text := bytes.Join([][]byte{[]byte(magic), header, bytes.Join(changes, nil), footer},
				nil)
			c, err := OpenContainer(bytes.NewReader(text), int64(len(text)), "set.slcs")
			if err != nil {
				return mutilate.Outcome{Err: err}
			}

			got = told(c.Info())
			_, got.Err = Verify(c, nil)
			return got
		}, map[string]string{
			mutilate.Dropped:   refused,
			mutilate.Doubled:   refused,
			mutilate.Merged:    refused,
			mutilate.Reordered: refused,
			mutilate.Sampled:   refused,
		})
}
