// Errors by schedule.
//
// SIM_FAULTS has a list such as `launch@37=illegal_address,alloc@12=out_of_memory`: the errors of the process's 37th launch and 12th
// allocation. A file named by SIM_FAULTS_FILE has such a list too; it is read when it appears, and counts from there. Points: init,
// count, alloc, copy, launch, gemm, synchronize. Errors that a device cannot recover from break it when the work would have run,
// and all later calls return the same error. All other errors are returned by the call itself.
#pragma once

#include <cuda.h>

namespace simulated {

enum class Point { Init, Count, Alloc, Copy, Launch, Gemm, Synchronize };

// The error that is due at this call, or CUDA_SUCCESS.
CUresult fault(Point point);

// True if the error stays with the context.
bool is_sticky(CUresult error);

} // namespace simulated
