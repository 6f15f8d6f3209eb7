#include "settings.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <unistd.h>

namespace simulated {

static std::string text(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static uint64_t number(const char *name, uint64_t otherwise) {
    const std::string value = text(name, "");
    if (value.empty()) return otherwise;
    char *end;
    const uint64_t parsed = strtoull(value.c_str(), &end, 10);
    if (*end) fail("%s=%s is not a number", name, value.c_str());
    return parsed;
}

static Order order(uint64_t seed) {
    const std::string value = text("SIM_ORDER", "");
    if (value == "at-once") return Order::AtOnce;
    if (value == "soon") return Order::Soon;
    if (value == "late") return Order::Late;
    if (!value.empty()) fail("SIM_ORDER=%s: there are at-once, soon and late", value.c_str());
    return seed % 3 == 0 ? Order::Late : seed % 3 == 1 ? Order::Soon : Order::AtOnce;
}

static Settings read() {
    Settings s;
    s.devices = int(number("SIM_DEVICES", 1));
    s.bytes = number("SIM_DEVICE_BYTES", size_t(2) << 30);
    s.name = text("SIM_DEVICE_NAME", "Simulated H100");
    const std::string capability = text("SIM_CAPABILITY", "9.0");
    if (sscanf(capability.c_str(), "%d.%d", &s.major, &s.minor) != 2) fail("SIM_CAPABILITY=%s is not like 9.0", capability.c_str());
    s.driver_version = int(number("SIM_DRIVER_VERSION", 13000));
    s.seed = number("SIM_SEED", 0);
    s.order = order(s.seed);
    s.verbose = number("SIM_TRACE", 0) != 0;
    s.does_nothing = number("SIM_NULL", 0) != 0;
    s.count_file = text("SIM_COUNT", "");
    return s;
}

const Settings &settings() {
    static const Settings settings = read();
    return settings;
}

uint32_t random_below(uint32_t limit) {
    static std::mt19937_64 generator(settings().seed);
    return uint32_t(generator() % limit);
}

void fail(const char *format, ...) {
    char line[600] = "simulated device: ";
    va_list arguments;
    va_start(arguments, format);
    int length = 18 + vsnprintf(line + 18, sizeof line - 20, format, arguments);
    va_end(arguments);
    if (length > int(sizeof line) - 2) length = int(sizeof line) - 2;
    line[length] = '\n';
    // Not stdio: also called from a signal's handler.
    if (write(2, line, size_t(length) + 1) < 0) _exit(134);
    abort();
}

} // namespace simulated
