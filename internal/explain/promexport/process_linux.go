package promexport

import "github.com/prometheus/procfs"

// system tells what Linux knows of this process. What cannot be read is left out.
func system(set func(name string, value float64)) {
	self, err := procfs.Self()
	if err != nil {
		return
	}

	if stat, err := self.Stat(); err == nil {
		set("process_cpu_seconds_total", stat.CPUTime())
		set("process_virtual_memory_bytes", float64(stat.VirtualMemory()))
		set("process_resident_memory_bytes", float64(stat.ResidentMemory()))
		if began, err := stat.StartTime(); err == nil {
			set("process_start_time_seconds", began)
		}
	}

	if open, err := self.FileDescriptorsLen(); err == nil {
		set("process_open_fds", float64(open))
	}

	if limits, err := self.Limits(); err == nil {
		set("process_max_fds", float64(limits.OpenFiles))
		set("process_virtual_memory_max_bytes", float64(limits.AddressSpace))
	}

	network, err := self.Netstat()
	if err == nil && network.InOctets != nil && network.OutOctets != nil {
		set("process_network_receive_bytes_total", *network.InOctets)
		set("process_network_transmit_bytes_total", *network.OutOctets)
	}
}
