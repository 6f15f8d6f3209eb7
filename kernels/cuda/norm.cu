// Norms: RMSNorm from the f32 residual stream to the next product's input, and LayerNorm, also in place and of q and k.
#include "common.cuh"

// x += delta (if any); out = x / sqrt(mean(x^2) + eps) * weight. One block for each row; the second pass reads the row
// from the cache. Grid: rows.
template <typename T, int N>
DEVICE void add_rms_norm(float *__restrict__ x, const T *__restrict__ delta, const float *__restrict__ weight, float eps,
                         T *__restrict__ out, uint32_t width) {
    const size_t offset = size_t(blockIdx.x) * width;
    Vector<float, N> *row = reinterpret_cast<Vector<float, N> *>(x + offset);
    const Vector<T, N> *deltas = reinterpret_cast<const Vector<T, N> *>(delta + (delta ? offset : 0));
    float squares = 0.0f;
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        Vector<float, N> values = row[i];
        if (delta) {
            const Vector<T, N> added = deltas[i];
#pragma unroll
            for (int j = 0; j < N; ++j) values.value[j] += to_float(added.value[j]);
            row[i] = values;
        }
#pragma unroll
        for (int j = 0; j < N; ++j) squares += values.value[j] * values.value[j];
    }
    const float scale = inverse_root(block_sum(squares) / float(width) + eps);
    const Vector<float, N> *weights = reinterpret_cast<const Vector<float, N> *>(weight);
    Vector<T, N> *outs = reinterpret_cast<Vector<T, N> *>(out + offset);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        // The values that this thread wrote in the first pass.
        const Vector<float, N> values = row[i], factors = weights[i];
        Vector<T, N> result;
#pragma unroll
        for (int j = 0; j < N; ++j) result.value[j] = from_float<T>(values.value[j] * scale * factors.value[j]);
        outs[i] = result;
    }
}

// `_4`: the width is a multiple of 4.
#define ADD_RMS_NORM(NAME, T)                                                                                          \
    KERNEL add_rms_norm_##NAME##_1(float *x, const T *delta, const float *weight, float eps, T *out, uint32_t width) { \
        add_rms_norm<T, 1>(x, delta, weight, eps, out, width);                                                         \
    }                                                                                                                  \
    KERNEL add_rms_norm_##NAME##_4(float *x, const T *delta, const float *weight, float eps, T *out, uint32_t width) { \
        add_rms_norm<T, 4>(x, delta, weight, eps, out, width);                                                         \
    }
ADD_RMS_NORM(f32, float)
ADD_RMS_NORM(bf16, bf16)
ADD_RMS_NORM(f16, f16)

// out += x / sqrt(mean(x^2) + eps) * weight: the output of a block, normalised, joins the residual stream. One block for each row.
// Grid: rows.
template <int N>
DEVICE void rms_norm_add(const float *__restrict__ x, const float *__restrict__ weight, float eps, float *__restrict__ out,
                         uint32_t width) {
    const size_t offset = size_t(blockIdx.x) * width;
    const Vector<float, N> *row = reinterpret_cast<const Vector<float, N> *>(x + offset);
    float squares = 0.0f;
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<float, N> values = row[i];
#pragma unroll
        for (int j = 0; j < N; ++j) squares += values.value[j] * values.value[j];
    }
    const float scale = inverse_root(block_sum(squares) / float(width) + eps);
    const Vector<float, N> *weights = reinterpret_cast<const Vector<float, N> *>(weight);
    Vector<float, N> *outs = reinterpret_cast<Vector<float, N> *>(out + offset);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<float, N> values = row[i], factors = weights[i];
        Vector<float, N> sum = outs[i];
#pragma unroll
        for (int j = 0; j < N; ++j) sum.value[j] += values.value[j] * scale * factors.value[j];
        outs[i] = sum;
    }
}

KERNEL rms_norm_add_1(const float *x, const float *weight, float eps, float *out, uint32_t width) {
    rms_norm_add<1>(x, weight, eps, out, width);
}
// The width is a multiple of 4.
KERNEL rms_norm_add_4(const float *x, const float *weight, float eps, float *out, uint32_t width) {
    rms_norm_add<4>(x, weight, eps, out, width);
}

// out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, with the population variance of the row's `width` values; rows
// are `stride` values apart. `out` may be `x`: a thread writes only values that it has read itself. One block for each row; the
// passes after the first read it from the cache. Grid: rows.
template <typename In, typename T, int N>
DEVICE void layer_norm(const In *x, const float *__restrict__ weight, const float *__restrict__ bias, float eps, T *out,
                       uint32_t width, uint32_t stride) {
    const size_t offset = size_t(blockIdx.x) * stride;
    const Vector<In, N> *row = reinterpret_cast<const Vector<In, N> *>(x + offset);
    float sum = 0.0f;
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<In, N> values = row[i];
#pragma unroll
        for (int j = 0; j < N; ++j) sum += to_float(values.value[j]);
    }
    const float mean = block_sum(sum) / float(width);
    float squares = 0.0f;
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<In, N> values = row[i];
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const float distance = to_float(values.value[j]) - mean;
            squares += distance * distance;
        }
    }
    const float scale = inverse_root(block_sum(squares) / float(width) + eps);
    const Vector<float, N> *weights = reinterpret_cast<const Vector<float, N> *>(weight);
    const Vector<float, N> *biases = reinterpret_cast<const Vector<float, N> *>(bias);
    Vector<T, N> *outs = reinterpret_cast<Vector<T, N> *>(out + offset);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<In, N> values = row[i];
        const Vector<float, N> factors = weights[i], added = biases[i];
        Vector<T, N> result;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            result.value[j] = from_float<T>((to_float(values.value[j]) - mean) * scale * factors.value[j] + added.value[j]);
        }
        outs[i] = result;
    }
}

// `columns`: in place, on some neighbouring columns of a matrix. `_4`: the width and the stride are multiples of 4.
#define LAYER_NORM(NAME, T, N)                                                                                         \
    KERNEL layer_norm_##NAME##_##N(const float *x, const float *weight, const float *bias, float eps, T *out,          \
                                   uint32_t width) {                                                                   \
        layer_norm<float, T, N>(x, weight, bias, eps, out, width, width);                                              \
    }                                                                                                                  \
    KERNEL layer_norm_columns_##NAME##_##N(T *x, const float *weight, const float *bias, float eps, uint32_t width,    \
                                           uint32_t stride) {                                                          \
        layer_norm<T, T, N>(x, weight, bias, eps, x, width, stride);                                                   \
    }
LAYER_NORM(f32, float, 1)
LAYER_NORM(f32, float, 4)
LAYER_NORM(bf16, bf16, 1)
LAYER_NORM(bf16, bf16, 4)
LAYER_NORM(f16, f16, 1)
LAYER_NORM(f16, f16, 4)
