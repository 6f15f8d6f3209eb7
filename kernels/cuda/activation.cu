// The gated activation of the MLP.
#include "common.cuh"

// out = silu(gate) * up, a row of `gate_up` is [gate | up]. `width` is a multiple of N. Grid: rows.
template <typename T, int N>
DEVICE void silu_mul(const T *__restrict__ gate_up, T *__restrict__ out, uint32_t width) {
    const Vector<T, N> *gates = reinterpret_cast<const Vector<T, N> *>(gate_up + size_t(blockIdx.x) * 2 * width);
    const Vector<T, N> *ups = gates + width / N;
    Vector<T, N> *outs = reinterpret_cast<Vector<T, N> *>(out + size_t(blockIdx.x) * width);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<T, N> gate = gates[i], up = ups[i];
        Vector<T, N> result;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const float g = to_float(gate.value[j]);
            result.value[j] = from_float<T>(g / (1.0f + expf(-g)) * to_float(up.value[j]));
        }
        outs[i] = result;
    }
}

// `_4` and `_8`: 16 bytes of the type; the width is a multiple.
#define SILU_MUL(NAME, T, N)                                                                                           \
    KERNEL silu_mul_##NAME##_##N(const T *gate_up, T *out, uint32_t width) { silu_mul<T, N>(gate_up, out, width); }
SILU_MUL(f32, float, 1)
SILU_MUL(f32, float, 4)
SILU_MUL(bf16, bf16, 1)
SILU_MUL(bf16, bf16, 8)
SILU_MUL(f16, f16, 1)
SILU_MUL(f16, f16, 8)
