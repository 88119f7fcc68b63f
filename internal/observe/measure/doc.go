// Package measure is what stands in the hot loop: a clock, a histogram and the
// recorder that one worker writes while another goroutine looks on.
//
// Goals: a clock pair and a record cost tens of nanoseconds and no allocation;
// nothing is shared between workers; what falls outside the range is counted,
// not moved into it.
// Non-goals: deciding what is timed (bench does), storing (result does),
// comparing (stats does).
package measure
