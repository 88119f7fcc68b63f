#include "textflag.h"

// func readTSC() int64
// LFENCE keeps the counter from being read before the timed call has finished. It
// doubles the price, to some 19 ns: without it a cache miss at the end of a call
// can fall outside its time.
TEXT ·readTSC(SB), NOSPLIT, $0-8
	LFENCE
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
