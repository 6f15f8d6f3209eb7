// Settings of the simulated device from the environment, and the abort of a wrong program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace simulated {

enum class Order {
    // Work runs before the call that queues it returns.
    AtOnce,
    // Work runs on another thread after a random delay.
    Soon,
    // Work runs only when it is waited for, or after a long delay.
    Late,
};

struct Settings {
    int devices;             // SIM_DEVICES, 1
    size_t bytes;            // SIM_DEVICE_BYTES of each, 2 GiB
    std::string name;        // SIM_DEVICE_NAME
    int major, minor;        // SIM_CAPABILITY, 9.0
    int driver_version;      // SIM_DRIVER_VERSION, 13000
    uint64_t seed;           // SIM_SEED, 0
    Order order;             // SIM_ORDER: at-once, soon, late; without it by the seed
    bool verbose;            // SIM_TRACE: each call's work on stderr
    bool does_nothing;       // SIM_NULL: calls return at once, no work is done, and all that a program reads is zero
    std::string count_file;  // SIM_COUNT: counts of a program's calls, a line of JSON for each wait
};

const Settings &settings();

// The random numbers of this seed; called by one thread at a time.
uint32_t random_below(uint32_t limit);

// Prints the fault of the program under test and aborts. Errors that a real driver would report are returned as their CUresult instead.
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace simulated
