// Errors by schedule.
//
// SIM_FAULTS has a list such as `launch@37=illegal_address,alloc@12=out_of_memory`: what the 37th launch and the 12th allocation of the
// process come to. A file named by SIM_FAULTS_FILE has such a list too; it is read when it appears, and counts from there.
// Points: init, count, alloc, copy, launch, gemm, synchronize. Errors that a device cannot recover from break it when the work would
// have run; everything after it has the same error. All others are the answer of the call itself.
#pragma once

#include <cuda.h>

namespace simulated {

enum class Point { Init, Count, Alloc, Copy, Launch, Gemm, Synchronize };

// The error that is due at this call, or CUDA_SUCCESS.
CUresult fault(Point point);

// True if a context has this error for ever.
bool is_sticky(CUresult error);

} // namespace simulated
