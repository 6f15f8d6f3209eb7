// What cuBLAS and the others ask of the driver.
#pragma once

#include "executor.h"

#include <cuda.h>

namespace simulated {

// The device of the calling thread's context, or -1.
int current_device();
// A stream by its handle; nullptr is the current device's legacy stream.
Stream *stream_of(CUstream handle);

} // namespace simulated
