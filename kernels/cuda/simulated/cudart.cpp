// The runtime library, which candle's kernels of quantized experts register themselves with; prefold calls none of them.
#include "settings.h"

#define UNUSED(NAME)                                                                                                   \
    extern "C" __attribute__((visibility("default"))) int NAME() { simulated::fail(#NAME " is not simulated"); }
#define NOTHING(NAME)                                                                                                  \
    extern "C" __attribute__((visibility("default"))) void *NAME() { return nullptr; }

NOTHING(__cudaRegisterFatBinary)
NOTHING(__cudaRegisterFatBinaryEnd)
NOTHING(__cudaRegisterFunction)
NOTHING(__cudaRegisterVar)
NOTHING(__cudaUnregisterFatBinary)
UNUSED(__cudaGetKernel)
UNUSED(__cudaLaunchKernel_ptsz)
UNUSED(__cudaPopCallConfiguration)
UNUSED(__cudaPushCallConfiguration)
UNUSED(cudaFuncSetAttribute)
UNUSED(cudaGetDevice)
