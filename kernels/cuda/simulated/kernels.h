// The kernels that a launch can name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace simulated {

struct Grid {
    uint32_t blocks, threads, shared_bytes;
};

struct Kernel {
    const char *name;
    // Bytes of each argument.
    std::vector<size_t> arguments;
    // Maximum threads of a block: the kernel's launch bounds.
    uint32_t max_threads;
    // Reads the arguments now and returns a function that runs the kernel. Device addresses are translated to the
    // simulator's view.
    std::function<std::function<void(const Grid &)>(void **arguments)> bind;
};

// A kernel of prefold, compiled from its source, or nullptr for an unknown name. candle's kernels are never launched.
const Kernel *find_kernel(const std::string &name);

} // namespace simulated
