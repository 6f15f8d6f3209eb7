// The RMSNorm of q and k that some families have, and split-half RoPE, in place.
#include "common.cuh"

// Heads of a row that are treated alike: `heads` of them from column `offset` on; `norm` [dim] may be null.
struct HeadSpan {
    const float *norm;
    uint32_t offset, heads;
};

// One warp for each head of each row. `table` is [positions, dim], a row is [cos | sin]; a position that is not in it
// makes NaN. `half` (dim / 2) is a multiple of N. Grid: rows * heads / (blockDim.x / 32), rounded up.
template <typename T, int N>
DEVICE void qk_norm_rope(T *__restrict__ x, const uint32_t *__restrict__ position_ids, const float *__restrict__ table,
                         HeadSpan q, HeadSpan k, uint32_t rows, uint32_t row_width, uint32_t half, uint32_t positions,
                         float eps) {
    const uint32_t heads = q.heads + k.heads, lane = threadIdx.x % 32;
    const uint32_t item = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (item >= rows * heads) return;
    const uint32_t row = item / heads, index = item % heads;
    const bool is_q = index < q.heads;
    const float *norm = is_q ? q.norm : k.norm;
    const uint32_t column = is_q ? q.offset + index * 2 * half : k.offset + (index - q.heads) * 2 * half;
    T *head = x + size_t(row) * row_width + column;
    const uint32_t position = position_ids[row];
    const bool inside = position < positions;
    const float *angles = table + size_t(inside ? position : 0) * 2 * half;

    float scale = 1.0f;
    if (norm) {
        float squares = 0.0f;
        for (uint32_t i = lane * N; i < 2 * half; i += 32 * N) {
            const Vector<T, N> values = *reinterpret_cast<const Vector<T, N> *>(head + i);
#pragma unroll
            for (int j = 0; j < N; ++j) squares += to_float(values.value[j]) * to_float(values.value[j]);
        }
        scale = 1.0f / sqrtf(warp_sum(squares) / float(2 * half) + eps);
    }
    // Each lane rotates pairs of its own, so nobody reads what another has written. The lanes have all read for the norm
    // before the warp's sum is known.
    for (uint32_t i = lane * N; i < half; i += 32 * N) {
        const Vector<T, N> low = *reinterpret_cast<const Vector<T, N> *>(head + i);
        const Vector<T, N> high = *reinterpret_cast<const Vector<T, N> *>(head + half + i);
        Vector<T, N> new_low, new_high;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            float a = to_float(low.value[j]), b = to_float(high.value[j]);
            if (norm) {
                a = a * scale * norm[i + j];
                b = b * scale * norm[half + i + j];
            }
            const float cosine = inside ? angles[i + j] : NAN, sine = angles[half + i + j];
            new_low.value[j] = from_float<T>(a * cosine - b * sine);
            new_high.value[j] = from_float<T>(b * cosine + a * sine);
        }
        *reinterpret_cast<Vector<T, N> *>(head + i) = new_low;
        *reinterpret_cast<Vector<T, N> *>(head + half + i) = new_high;
    }
}

// `_2`: half, the row's width and the offsets are multiples of 2.
#define QK_NORM_ROPE_N(NAME, T, N)                                                                                     \
    KERNEL qk_norm_rope_##NAME##_##N(T *x, const uint32_t *position_ids, const float *table, const float *q_norm,      \
                                     uint32_t q_offset, uint32_t q_heads, const float *k_norm, uint32_t k_offset,      \
                                     uint32_t k_heads, uint32_t rows, uint32_t row_width, uint32_t half,               \
                                     uint32_t positions, float eps) {                                                  \
        const HeadSpan q = {q_norm, q_offset, q_heads}, k = {k_norm, k_offset, k_heads};                               \
        qk_norm_rope<T, N>(x, position_ids, table, q, k, rows, row_width, half, positions, eps);                       \
    }
#define QK_NORM_ROPE(NAME, T) QK_NORM_ROPE_N(NAME, T, 1) QK_NORM_ROPE_N(NAME, T, 2)
QK_NORM_ROPE(f32, float)
QK_NORM_ROPE(bf16, bf16)
QK_NORM_ROPE(f16, f16)
