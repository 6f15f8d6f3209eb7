// Counts of the calls that a program makes between its waits.
#pragma once

#include <cstddef>

namespace simulated {

// In the order of their names in counts.cpp.
enum class Counted { Products, ToDevice, ToHost, OnDevice, Memsets, Allocations, PageLocked, Frees, Events };

// Counts a call and its bytes; does nothing without SIM_COUNT.
void count(Counted what, size_t bytes = 0);
void count_launch(const char *kernel);
// Records the number of unfinished operations of a stream.
void count_queue(size_t depth);

// Called when the program waits: appends the counts since the previous wait to the file SIM_COUNT, as one line of JSON.
void count_wait();

} // namespace simulated
