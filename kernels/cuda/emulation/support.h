// Comparisons, random values and guarded memory for the checks in emulation.
#pragma once
#include "device.h"
#include <random>
#include <string>

static std::mt19937 generator(7);

static uint32_t below(uint32_t limit) { return std::uniform_int_distribution<uint32_t>(0, limit - 1)(generator); }

static double worst(0);

// NaN fails.
static void close(const std::string &what, size_t index, double found, double expected, double tolerance) {
    const double error = std::abs(found - expected);
    if (!(error <= tolerance)) {
        printf("FAILED %s [%zu]: %g, expected %g within %g\n", what.c_str(), index, found, expected, tolerance);
        exit(1);
    }
    worst = std::max(worst, error / tolerance);
}

// Memory aligned to 64 bytes with guard zones on both sides that must not change.
template <typename T> struct Array {
    size_t len;
    std::vector<unsigned char> bytes;
    unsigned char *start;
    static constexpr size_t GUARD = 64;

    explicit Array(size_t len) : len(len), bytes(len * sizeof(T) + 3 * GUARD, 0xff) {
        start = bytes.data() + (2 * GUARD - reinterpret_cast<uintptr_t>(bytes.data()) % GUARD);
        memset(start, 0xff, len * sizeof(T));
    }
    Array(const Array &other) : Array(other.len) { memcpy(start, other.start, len * sizeof(T)); }

    T *get() { return reinterpret_cast<T *>(start); }
    T &operator[](size_t i) { return get()[i]; }

    void check_guards(const std::string &what) const {
        for (const unsigned char *p = bytes.data(); p < bytes.data() + bytes.size(); ++p) {
            const bool inside = p >= start && p < start + len * sizeof(T);
            if (!inside && *p != 0xff) {
                printf("FAILED %s: written outside\n", what.c_str());
                exit(1);
            }
        }
    }
};

template <typename T> Array<T> random_values(size_t len, float size = 1.7f) {
    Array<T> values(len);
    std::uniform_real_distribution<float> distribution(-size, size);
    for (size_t i = 0; i < len; ++i) values[i] = from_float<T>(distribution(generator));
    return values;
}

template <typename T> constexpr double rounding() { return sizeof(T) == 4 ? 4e-6 : 1.0 / 128; }
