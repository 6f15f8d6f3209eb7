// Conversions of f16 and bf16, written from their definition.
#pragma once

#include <cstdint>
#include <cstring>

namespace simulated {

struct Bfloat16 {
    uint16_t bits;

    Bfloat16() = default;
    explicit Bfloat16(float x) {
        uint32_t word;
        memcpy(&word, &x, 4);
        bits = uint16_t(x != x ? word >> 16 | 0x40 : (word + 0x7fff + (word >> 16 & 1)) >> 16);
    }
    explicit operator float() const {
        const uint32_t word = uint32_t(bits) << 16;
        float x;
        memcpy(&x, &word, 4);
        return x;
    }
};

typedef _Float16 Float16;

} // namespace simulated
