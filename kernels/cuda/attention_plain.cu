// Attention without tensor cores, for every head size and for f32. A warp has one query at a time and takes 32 keys at a
// time: for the scores each lane has one key, for the values all lanes work on every key.
#include "attention.cuh"

// Grid: tiles * num_kv_heads. Shared memory: for each warp 2 * head_dim floats, the query and the sums.
template <typename T> DEVICE void plain_attention(const Attention &a, float *memory) {
    const Place place(a, a.tile_queries);
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = a.head_dim;
    float *query = memory + warp * 2 * dim, *sums = query + dim;
    const uint32_t *pages = a.pages + place.span.path;
    const T *keys = static_cast<const T *>(a.k) + place.kv_head * dim;
    const T *values = static_cast<const T *>(a.v) + place.kv_head * dim;
    const uint32_t head_column = place.kv_head * dim, position_stride = a.num_kv_heads * dim;
    const T *position_keys = static_cast<const T *>(a.position_keys), *position_queries = static_cast<const T *>(a.position_queries);
    for (uint32_t i = warp; i < place.count; i += blockDim.x / 32) {
        const T *q = static_cast<const T *>(a.q) + place.row(a, i) * a.q_stride + place.column(a, i);
        __syncwarp();
        for (uint32_t d = lane; d < dim; d += 32) {
            store_shared(&query[d], to_float(q[d]));
            store_shared(&sums[d], 0.0f);
        }
        __syncwarp();
        const uint32_t position = place.position(a, i);
        const uint32_t last = a.last_key(position, place.last_key);
        const float *bias = a.bias ? a.biases(place.kv_head, position) : nullptr;
        const uint32_t *rows = a.distance_rows ? a.rows(position) : nullptr;
        float maximum = -INFINITY, total = 0.0f;
        for (uint32_t block = a.first_key(position); block <= last; block += 32) {
            const uint32_t count = last + 1 - block < 32 ? last + 1 - block : 32;
            const uint32_t page = pages[block + (lane < count ? lane : 0)];
            float score = -INFINITY;
            if (lane < count) {
                const T *key = keys + size_t(page) * a.kv_stride;
                score = 0.0f;
                for (uint32_t d = 0; d < dim; ++d) score += load_shared(&query[d]) * to_float(key[d]);
                const size_t embedding = rows ? size_t(rows[-int(block + lane)]) * position_stride + head_column : 0;
                for (uint32_t d = 0; d < dim && position_keys; ++d) {
                    score += load_shared(&query[d]) * to_float(position_keys[embedding + d]);
                }
                for (uint32_t d = 0; d < dim && position_queries; ++d) {
                    score += to_float(key[d]) * to_float(position_queries[embedding + d]);
                }
                if (bias) score += bias[-int(block + lane)] * a.bias_scale;
                score *= a.scale_log2;
            }
            const float largest = fmaxf(maximum, warp_max(score));
            const float zero = largest == -INFINITY ? 0.0f : largest;
            const float factor = exp2_approx(maximum - zero), weight = exp2_approx(score - zero);
            maximum = largest;
            total = total * factor + warp_sum(weight);
            for (uint32_t first_column = 0; first_column < dim; first_column += 32) {
                const uint32_t d = first_column + lane;
                float sum = d < dim ? load_shared(&sums[d]) * factor : 0.0f;
                for (uint32_t key = 0; key < count; ++key) {
                    // All lanes take part in the exchange, including lanes without a column.
                    const float share = __shfl_sync(0xffffffff, weight, key);
                    const uint32_t row = __shfl_sync(0xffffffff, page, key);
                    if (d < dim) sum += share * to_float(values[size_t(row) * a.kv_stride + d]);
                }
                if (d < dim) store_shared(&sums[d], sum);
            }
        }
        T *out = static_cast<T *>(a.out) + place.row(a, i) * a.out_stride + place.column(a, i);
        for (uint32_t d = lane; d < dim; d += 32) out[d] = from_float<T>(load_shared(&sums[d]) / total);
    }
}

#define PLAIN_ATTENTION(NAME, T)                                                                                       \
    KERNEL __launch_bounds__(128) plain_attention_##NAME(const Attention a) {                                          \
        DYNAMIC_SHARED(memory);                                                                                        \
        plain_attention<T>(a, reinterpret_cast<float *>(memory));                                                      \
    }
PLAIN_ATTENTION(f32, float)
PLAIN_ATTENTION(bf16, bf16)
PLAIN_ATTENTION(f16, f16)
