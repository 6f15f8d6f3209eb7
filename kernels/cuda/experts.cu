// Mixture of experts: the rows routed to each expert by the router's scores, and the weighted sum of expert outputs. Neither
// kernel uses atomic operations, so that equal inputs give equal bits.
#include "common.cuh"

// True if `expert` is among the `top` best experts of a row by score, the lower number first among equals; `weight` becomes
// the softmax of its score. A NaN score makes all weights of its row NaN, and the row still goes to at least one expert.
DEVICE bool is_chosen(const float *__restrict__ scores, uint32_t experts, uint32_t top, uint32_t expert, float &weight) {
    const float own = scores[expert];
    float largest = -INFINITY, total = 0.0f;
    uint32_t better = 0;
    for (uint32_t i = 0; i < experts; ++i) {
        const float other = scores[i];
        largest = fmaxf(largest, other);
        better += other > own || (other == own && i < expert) ? 1 : 0;
    }
    if (better >= top) return false;
    for (uint32_t i = 0; i < experts; ++i) total += expf(scores[i] - largest);
    weight = expf(own - largest) / total;
    return true;
}

// Lists the rows of each expert in ascending order with its weight in each row, and counts them; `scores` is [rows, experts].
// Each list has room for all rows. A block scans all scores for its expert, some rows at a time; ballots count the selected
// rows before a thread's own. Grid: experts.
KERNEL route_rows(const float *__restrict__ scores, uint32_t *__restrict__ listed, float *__restrict__ weights,
                  uint32_t *__restrict__ counts, uint32_t rows, uint32_t experts, uint32_t top) {
    __shared__ uint32_t chosen_by[32];
    const uint32_t expert = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t *list = listed + size_t(expert) * rows;
    float *list_weights = weights + size_t(expert) * rows;
    uint32_t count = 0;
    for (uint32_t first = 0; first < rows; first += blockDim.x) {
        const uint32_t row = first + threadIdx.x;
        float weight = 0.0f;
        const bool chosen = row < rows && is_chosen(scores + size_t(row) * experts, experts, top, expert, weight);
        const uint32_t lanes = __ballot_sync(0xffffffff, chosen);
        __syncthreads(); // The counts of the rows before may still be read.
        if (lane == 0) store_shared(&chosen_by[warp], uint32_t(__popc(lanes)));
        __syncthreads();
        uint32_t place = count + __popc(lanes & ((1u << lane) - 1));
        for (uint32_t i = 0; i < blockDim.x / 32; ++i) {
            const uint32_t rows_of_warp = load_shared(&chosen_by[i]);
            if (i < warp) place += rows_of_warp;
            count += rows_of_warp;
        }
        if (chosen) {
            list[place] = row;
            list_weights[place] = weight;
        }
    }
    if (threadIdx.x == 0) counts[expert] = count;
}

// out[index[i]] += factors[i] * x[i], where `index` has no row twice; without an index out[i] += x[i]. Indices out of range are
// skipped. Grid: rows of `x`.
template <int N>
DEVICE void scatter_add_rows(const float *__restrict__ x, const uint32_t *__restrict__ index,
                             const float *__restrict__ factors, float *__restrict__ out, uint32_t out_rows, uint32_t width) {
    const uint32_t to = index ? index[blockIdx.x] : blockIdx.x;
    const float factor = index ? factors[blockIdx.x] : 1.0f;
    if (to >= out_rows) return;
    const Vector<float, N> *row = reinterpret_cast<const Vector<float, N> *>(x + size_t(blockIdx.x) * width);
    Vector<float, N> *target = reinterpret_cast<Vector<float, N> *>(out + size_t(to) * width);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<float, N> values = row[i];
        Vector<float, N> sum = target[i];
#pragma unroll
        for (int j = 0; j < N; ++j) sum.value[j] += factor * values.value[j];
        target[i] = sum;
    }
}

// `_4`: the width is a multiple of 4.
#define SCATTER_ADD_ROWS(N)                                                                                            \
    KERNEL scatter_add_rows_##N(const float *x, const uint32_t *index, const float *factors, float *out,               \
                                uint32_t out_rows, uint32_t width) {                                                   \
        scatter_add_rows<N>(x, index, factors, out, out_rows, width);                                                  \
    }
SCATTER_ADD_ROWS(1)
SCATTER_ADD_ROWS(4)
