// Split-half RoPE in place, after the per-head RMSNorm of q and k that some families have.
#include "common.cuh"

// Heads of a row that share a norm weight: `heads` of them from column `offset` on; `norm` [dim] may be null.
struct HeadSpan {
    const float *norm;
    uint32_t offset, heads;
};

// A head of a row, and the angles of the row's position: one row [cos | sin] of `table`, [positions, dim].
template <typename T> struct Head {
    T *values;
    const float *norm, *angles;
    // A position outside the RoPE cache gives NaN.
    bool inside;

    DEVICE_METHOD Head(T *x, const uint32_t *position_ids, const float *table, const HeadSpan &q, const HeadSpan &k,
                       uint32_t row_width, uint32_t half, uint32_t positions, uint32_t item) {
        const uint32_t heads = q.heads + k.heads, row = item / heads, index = item - row * heads;
        const bool is_q = index < q.heads;
        const uint32_t column = is_q ? q.offset + index * 2 * half : k.offset + (index - q.heads) * 2 * half;
        const uint32_t position = position_ids[row];
        inside = position < positions;
        values = x + size_t(row) * row_width + column;
        norm = is_q ? q.norm : k.norm;
        angles = table + size_t(inside ? position : 0) * 2 * half;
    }
};

template <int N> DEVICE void load_floats(float (&to)[N], const float *from) {
    constexpr int AT_ONCE = N < 4 ? N : 4;
#pragma unroll
    for (int i = 0; i < N; i += AT_ONCE) {
        const Vector<float, AT_ONCE> some = *reinterpret_cast<const Vector<float, AT_ONCE> *>(from + i);
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) to[i + j] = some.value[j];
    }
}

// Writes the values i .. i + N of a head and their partners in its other half, scaled and rotated.
template <typename T, int N>
DEVICE void rotate(const Head<T> &head, uint32_t half, uint32_t i, const Vector<T, N> &low, const Vector<T, N> &high,
                   float scale) {
    float cosines[N], sines[N], low_norm[N], high_norm[N];
    load_floats<N>(cosines, head.angles + i);
    load_floats<N>(sines, head.angles + half + i);
    if (head.norm) {
        load_floats<N>(low_norm, head.norm + i);
        load_floats<N>(high_norm, head.norm + half + i);
    }
    Vector<T, N> new_low, new_high;
#pragma unroll
    for (int j = 0; j < N; ++j) {
        float a = to_float(low.value[j]), b = to_float(high.value[j]);
        if (head.norm) {
            a = a * scale * low_norm[j];
            b = b * scale * high_norm[j];
        }
        const float cosine = head.inside ? cosines[j] : NAN;
        new_low.value[j] = from_float<T>(a * cosine - b * sines[j]);
        new_high.value[j] = from_float<T>(b * cosine + a * sines[j]);
    }
    *reinterpret_cast<Vector<T, N> *>(head.values + i) = new_low;
    *reinterpret_cast<Vector<T, N> *>(head.values + half + i) = new_high;
}

// half / N lanes for each head, a power of two, which read it once. Grid: rows * heads / (blockDim.x / lanes), rounded up.
template <typename T, int N>
DEVICE void qk_norm_rope_wide(T *__restrict__ x, const uint32_t *__restrict__ position_ids, const float *__restrict__ table,
                              HeadSpan q, HeadSpan k, uint32_t rows, uint32_t row_width, uint32_t half,
                              uint32_t positions, float eps) {
    const uint32_t lanes = half / N, shift = __ffs(lanes) - 1;
    const uint32_t item = blockIdx.x * (blockDim.x >> shift) + (threadIdx.x >> shift), items = rows * (q.heads + k.heads);
    // Lanes after the last head take part in the warp's sums with it, and write nothing.
    const Head<T> head(x, position_ids, table, q, k, row_width, half, positions, item < items ? item : items - 1);
    const uint32_t i = (threadIdx.x & (lanes - 1)) * N;
    const Vector<T, N> low = *reinterpret_cast<const Vector<T, N> *>(head.values + i);
    const Vector<T, N> high = *reinterpret_cast<const Vector<T, N> *>(head.values + half + i);
    float squares = 0.0f;
#pragma unroll
    for (int j = 0; j < N; ++j) {
        squares += to_float(low.value[j]) * to_float(low.value[j]);
        squares += to_float(high.value[j]) * to_float(high.value[j]);
    }
    for (uint32_t offset = lanes / 2; offset > 0; offset /= 2) squares += __shfl_xor_sync(0xffffffff, squares, offset);
    if (item < items) rotate<T, N>(head, half, i, low, high, inverse_root(squares / float(2 * half) + eps));
}

// The same for heads of any size: a warp for each. Grid: rows * heads / (blockDim.x / 32), rounded up.
template <typename T>
DEVICE void qk_norm_rope(T *__restrict__ x, const uint32_t *__restrict__ position_ids, const float *__restrict__ table,
                         HeadSpan q, HeadSpan k, uint32_t rows, uint32_t row_width, uint32_t half, uint32_t positions,
                         float eps) {
    const uint32_t lane = threadIdx.x % 32, item = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (item >= rows * (q.heads + k.heads)) return;
    const Head<T> head(x, position_ids, table, q, k, row_width, half, positions, item);
    float squares = 0.0f;
    for (uint32_t i = lane; i < 2 * half; i += 32) squares += to_float(head.values[i]) * to_float(head.values[i]);
    const float scale = inverse_root(warp_sum(squares) / float(2 * half) + eps);
    // Each lane rotates pairs of its own, so no lane reads what another has written. All lanes have read their values for the
    // norm before the warp's sum is known.
    for (uint32_t i = lane; i < half; i += 32) {
        const Vector<T, 1> low = {{head.values[i]}}, high = {{head.values[half + i]}};
        rotate<T, 1>(head, half, i, low, high, scale);
    }
}

// `_4` and `_8`: accesses of 16 bytes; the row's width, the offsets and half a head are multiples of 4 or 8.
#define QK_NORM_ROPE_N(NAME, SUFFIX, T, ...)                                                                           \
    KERNEL qk_norm_rope_##NAME##_##SUFFIX(T *x, const uint32_t *position_ids, const float *table, const float *q_norm, \
                                          uint32_t q_offset, uint32_t q_heads, const float *k_norm, uint32_t k_offset, \
                                          uint32_t k_heads, uint32_t rows, uint32_t row_width, uint32_t half,          \
                                          uint32_t positions, float eps) {                                             \
        const HeadSpan q = {q_norm, q_offset, q_heads}, k = {k_norm, k_offset, k_heads};                               \
        __VA_ARGS__(x, position_ids, table, q, k, rows, row_width, half, positions, eps);                              \
    }
QK_NORM_ROPE_N(f32, 1, float, qk_norm_rope<float>)
QK_NORM_ROPE_N(f32, 4, float, qk_norm_rope_wide<float, 4>)
QK_NORM_ROPE_N(bf16, 1, bf16, qk_norm_rope<bf16>)
QK_NORM_ROPE_N(bf16, 8, bf16, qk_norm_rope_wide<bf16, 8>)
QK_NORM_ROPE_N(f16, 1, f16, qk_norm_rope<f16>)
QK_NORM_ROPE_N(f16, 8, f16, qk_norm_rope_wide<f16, 8>)
