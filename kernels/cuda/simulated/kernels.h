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
    // Threads of a block at most: its launch bounds.
    uint32_t max_threads;
    // Reads the arguments now; what comes back runs them. Device addresses become those of the simulator's view.
    std::function<std::function<void(const Grid &)>(void **arguments)> bind;
};

// One of prefold's, from their sources; nullptr: there is no such kernel. No kernel of candle is reached.
const Kernel *find_kernel(const std::string &name);

} // namespace simulated
