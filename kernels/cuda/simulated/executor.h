// Streams: work that runs later, on the device's thread, in any order that streams and events permit.
#pragma once

#include "faults.h"
#include "settings.h"

#include <functional>
#include <string>
#include <vector>

namespace simulated {

struct Stream;

// The work of a stream up to and including this number.
struct Ticket {
    Stream *stream = nullptr;
    uint64_t number = 0;
};

struct Work {
    // For messages: the call, and the kernel.
    std::string name;
    std::function<void()> run;
    // Work that must be done first, in addition to earlier work of the same stream.
    std::vector<Ticket> after;
};

Stream *new_stream(int device, bool blocking);
// The legacy stream, which waits for all blocking streams and which they wait for.
Stream *legacy_stream(int device);
// Work that is queued is still done.
void end_stream(Stream *stream);
int device_of(const Stream *stream);

// Queues work; `sticky`, if not CUDA_SUCCESS, breaks the device when the work would have run.
Ticket enqueue(Stream *stream, Work work, CUresult sticky = CUDA_SUCCESS);
// All that is queued on a stream.
Ticket last(Stream *stream);
bool is_done(const Ticket &ticket);
// Returns when it is done, or with the error that the device has.
CUresult wait_for(const Ticket &ticket);
CUresult wait_for_device(int device);
// The permanent error of a device, or CUDA_SUCCESS.
CUresult state(int device);

} // namespace simulated
