// What the environment says about the simulated device, and how the simulator ends a program that is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace simulated {

enum class Order {
    // Work is done before the call that queues it returns.
    AtOnce,
    // On another thread, after a random while.
    Soon,
    // Not before somebody waits for it, or for a while.
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
    std::string count_file;  // SIM_COUNT: what a program asks for, a line of JSON for each wait
};

const Settings &settings();

// The random numbers of this seed; called by one thread at a time.
uint32_t random_below(uint32_t limit);

// Says what is wrong with the program under test, and aborts. An error of a real device that a real driver would report has its
// CUresult instead.
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace simulated
