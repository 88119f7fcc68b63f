// What statelab watch runs in the kernel; the parts are in the files below. `make bpf` compiles
// them, and the result is in the repository, so that nobody else needs a compiler.
//
// Offsets into the kernel's structures are those of the kernel that loads the programs (CO-RE):
// kernel.h names the members that are read. What differs between processors, engines, functions
// and processes is constant while a program runs, and set when it is loaded: config.h.

#include "kernel.h"
#include "config.h"

#include "calls.c"
#include "reads.c"
#include "together.c"
#include "device.c"
#include "faults.c"
#include "pages.c"

// The events, which bpf2go declares in Go because a variable has their types.
union event {
	enum event_kind kind;
	enum page_event_kind page_kind;
	struct get get;
	struct together together;
	struct other_read other_read;
	struct fault fault;
	struct page_event page_event;
} *event_types __attribute__((unused));

// The kernel lets only programs that are offered under its own licence read the memory of a
// process, so these few may also be used under GPL-2.0.
char licence[] SEC("license") = "Dual BSD/GPL";
