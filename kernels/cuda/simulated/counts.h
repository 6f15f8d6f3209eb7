// What a program asked of the device, between its waits.
#pragma once

#include <cstddef>

namespace simulated {

// In the order of their names in counts.cpp.
enum class Counted { Products, ToDevice, ToHost, OnDevice, Memsets, Allocations, PageLocked, Frees, Events };

// Counts a call and its bytes; does nothing without SIM_COUNT.
void count(Counted what, size_t bytes = 0);
void count_launch(const char *kernel);
// Counts how much work a stream has that is not done.
void count_queue(size_t depth);

// The program waits: appends what was counted since the wait before to the file SIM_COUNT, as one line of JSON.
void count_wait();

} // namespace simulated
