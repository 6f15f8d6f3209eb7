// The activations of the MLP, gated and plain.
#include "common.cuh"

// Element-wise functions, numbered as in the launcher.
enum Activation : uint32_t { GELU, GELU_TANH, RELU, SILU };

DEVICE float activated(uint32_t kind, float x) {
    switch (kind) {
    case GELU: return 0.5f * x * erfcf(x * -0.70710678f);
    case GELU_TANH: return x / (1.0f + expf(-1.59576912f * (x + 0.044715f * x * x * x)));
    // NaN stays.
    case RELU: return x <= 0.0f ? 0.0f : x;
    default: return x / (1.0f + expf(-x));
    }
}

// out = activation(gate) * up, a row of `gate_up` is [gate | up]. `width` is a multiple of N. Grid: rows.
template <typename T, int N>
DEVICE void activate_mul(const T *__restrict__ gate_up, T *__restrict__ out, uint32_t width, uint32_t kind) {
    const Vector<T, N> *gates = reinterpret_cast<const Vector<T, N> *>(gate_up + size_t(blockIdx.x) * 2 * width);
    const Vector<T, N> *ups = gates + width / N;
    Vector<T, N> *outs = reinterpret_cast<Vector<T, N> *>(out + size_t(blockIdx.x) * width);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<T, N> gate = gates[i], up = ups[i];
        Vector<T, N> result;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            result.value[j] = from_float<T>(activated(kind, to_float(gate.value[j])) * to_float(up.value[j]));
        }
        outs[i] = result;
    }
}

// `_4` and `_8`: accesses of 16 bytes; the width is a multiple of 4 or 8.
#define ACTIVATE_MUL(NAME, T, N)                                                                                       \
    KERNEL activate_mul_##NAME##_##N(const T *gate_up, T *out, uint32_t width, uint32_t kind) {                        \
        activate_mul<T, N>(gate_up, out, width, kind);                                                                 \
    }
ACTIVATE_MUL(f32, float, 1)
ACTIVATE_MUL(f32, float, 4)
ACTIVATE_MUL(bf16, bf16, 1)
ACTIVATE_MUL(bf16, bf16, 8)
ACTIVATE_MUL(f16, f16, 1)
ACTIVATE_MUL(f16, f16, 8)

// out = activation(x + bias), where `bias` has `width` values, or is nullptr for no bias. `out` may be `x`: a thread writes
// only values that it has read itself. Grid: rows.
template <typename T, int N>
DEVICE void activate(const T *x, const float *__restrict__ bias, T *out, uint32_t width, uint32_t kind) {
    const size_t offset = size_t(blockIdx.x) * width;
    const Vector<T, N> *values = reinterpret_cast<const Vector<T, N> *>(x + offset);
    const Vector<float, N> *biases = reinterpret_cast<const Vector<float, N> *>(bias);
    Vector<T, N> *outs = reinterpret_cast<Vector<T, N> *>(out + offset);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<T, N> from = values[i];
        Vector<float, N> added = {};
        if (bias) added = biases[i];
        Vector<T, N> result;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            result.value[j] = from_float<T>(activated(kind, to_float(from.value[j]) + added.value[j]));
        }
        outs[i] = result;
    }
}

// `_4`: the width is a multiple of 4.
#define ACTIVATE(NAME, T, N)                                                                                           \
    KERNEL activate_##NAME##_##N(const T *x, const float *bias, T *out, uint32_t width, uint32_t kind) {               \
        activate<T, N>(x, bias, out, width, kind);                                                                     \
    }
ACTIVATE(f32, float, 1)
ACTIVATE(f32, float, 4)
ACTIVATE(bf16, bf16, 1)
ACTIVATE(bf16, bf16, 4)
ACTIVATE(f16, f16, 1)
ACTIVATE(f16, f16, 4)
