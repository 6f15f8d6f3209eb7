// Helpers shared by the entry points.
#pragma once

#include "counts.h"
#include "executor.h"

#include <cuda.h>

namespace simulated {

// The device of the calling thread's context, or -1.
int current_device();
// A stream by its handle; nullptr is the current device's legacy stream.
Stream *stream_of(CUstream handle);
// The status that every call on a device checks first.
CUresult ready();
// CUDA_SUCCESS for a stream of the current device.
CUresult same_device(CUstream handle);
// Shared memory that a block may ask for, by compute capability.
int most_shared();

} // namespace simulated

#define READY                                                                                                          \
    if (const CUresult error = ready()) return error

// An error that breaks the device is reported when the work runs (`due`); any other error is returned by the call.
#define FAULT(POINT)                                                                                                   \
    const CUresult due = fault(POINT);                                                                                 \
    if (due != CUDA_SUCCESS && !is_sticky(due)) return due

// Returns success where work would begin, if no work is done (SIM_NULL).
#define NOTHING_ON_NULL                                                                                                \
    if (settings().does_nothing) return CUDA_SUCCESS
