package rocksoptions

import "testing"

// TestImagineRefuses: an option with which nothing can be computed is an error, and one that
// RocksDB raises is raised.
func TestImagineRefuses(t *testing.T) {
	for _, name := range []string{"block_size", "metadata_block_size", "target_file_size_base"} {
		for _, value := range []string{"0", "0.5", "-1", "many", "1e300", "99999999T"} {
			if _, _, err := ModelFromOptions(map[string]string{name: value}); err == nil {
				t.Errorf("%s=%s is taken", name, value)
			}
		}
	}

	load, _, err := ModelFromOptions(map[string]string{
		"write_buffer_size":                "1",
		"min_write_buffer_number_to_merge": "0",
	})

	if err != nil || load.MemTableBytes != 64<<10 {
		t.Errorf("memtables of %d bytes, %v", load.MemTableBytes, err)
	}

	load, _, err = ModelFromOptions(map[string]string{"write_buffer_size": "64M"})
	if err != nil || load.MemTableBytes != 64<<20 {
		t.Errorf("memtables of 64M are %d bytes, %v", load.MemTableBytes, err)
	}
}
