// Attention on tensor cores, for bf16 and f16 and heads of 64 and 128 values: FlashAttention-2's loop (arXiv 2307.08691)
// with keys and values read through a page table.
//
// A block has four warps; a warp has `M` times 16 queries. Keys and values come in blocks of KEYS positions, aligned to the
// path's start, each copied asynchronously to one of two stages of shared memory while the block before is computed.
#include "attention.cuh"

// Scores without position terms: products and biases only.
struct NoTerms {
    static constexpr bool ANY = false;
};

template <typename T, int DIM, int M> struct FlashTile {
    static constexpr int WARPS = 4, THREADS = 32 * WARPS, QUERIES = 16 * M * WARPS, KEYS = 64;
    // A row in shared memory is DIM / 8 chunks of 16 bytes. Chunk c of row r is at place c ^ (r % 8) of its row, so that eight
    // rows of a matrix are in different banks.
    static constexpr int CHUNKS = DIM / 8;
    // Rows copied by all threads in one pass, passes for the rows of a block, and rows of a warp in each pass.
    static constexpr int PASS = THREADS / CHUNKS, PASSES = KEYS / PASS, WARP_ROWS = 32 / CHUNKS;
    static constexpr uint32_t ROW_BYTES = DIM * 2, Q_BYTES = QUERIES * ROW_BYTES, KV_BYTES = KEYS * ROW_BYTES;
    // Q, then K and V of the two stages.
    static constexpr uint32_t SHARED_BYTES = Q_BYTES + 4 * KV_BYTES;
    static constexpr uint32_t NO_PAGE = 0xffffffff;

    const Attention &a;
    const Place place;
    const uint32_t shared, warp, lane;
    // The row of one of the keys that this warp copies next: lane i holds the row of pass i / WARP_ROWS.
    uint32_t page;
    float scores[M][KEYS / 8][4];
    float sums[M][DIM / 8][4];
    // State of queries lane / 4 and lane / 4 + 8 of each 16.
    float maximum[M][2], total[M][2];

    DEVICE_METHOD FlashTile(const Attention &a, uint32_t shared)
        : a(a), place(a, QUERIES), shared(shared), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

    DEVICE_METHOD static uint32_t at(uint32_t row, uint32_t chunk) {
        return row * ROW_BYTES + ((chunk ^ (row % 8)) * 16);
    }

    DEVICE_METHOD uint32_t k_stage(uint32_t stage) const { return shared + Q_BYTES + stage * 2 * KV_BYTES; }

    DEVICE_METHOD uint32_t v_stage(uint32_t stage) const { return k_stage(stage) + KV_BYTES; }

    DEVICE_METHOD void copy_q() const {
        const uint32_t chunk = threadIdx.x % CHUNKS;
        const T *q = static_cast<const T *>(a.q);
#pragma unroll
        for (uint32_t i = 0; i < QUERIES / PASS; ++i) {
            const uint32_t row = i * PASS + threadIdx.x / CHUNKS;
            const T *from = q + place.row(a, row) * a.q_stride + place.column(a, row) + chunk * 8;
            copy_async_16(shared + at(row, chunk), from, row < place.count);
        }
    }

    // Looks up the rows of a block of keys well before they are copied. Keys that no query sees may be off the path.
    DEVICE_METHOD void find_pages(uint32_t block) {
        const uint32_t i = lane % (PASSES * WARP_ROWS);
        const uint32_t key = block * KEYS + i / WARP_ROWS * PASS + warp * WARP_ROWS + i % WARP_ROWS;
        page = key <= place.last_key ? a.pages[place.span.path + key] : NO_PAGE;
    }

    DEVICE_METHOD void copy_kv(uint32_t stage) const {
        const uint32_t chunk = threadIdx.x % CHUNKS;
        const uint32_t column = place.kv_head * DIM + chunk * 8;
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            const uint32_t row = __shfl_sync(0xffffffff, page, i * WARP_ROWS + lane / CHUNKS);
            const bool valid = row != NO_PAGE;
            const size_t from = size_t(valid ? row : 0) * a.kv_stride + column;
            const uint32_t to = at(i * PASS + threadIdx.x / CHUNKS, chunk);
            copy_async_16(k_stage(stage) + to, static_cast<const T *>(a.k) + from, valid);
            copy_async_16(v_stage(stage) + to, static_cast<const T *>(a.v) + from, valid);
        }
    }

    // scores = Q K^T
    DEVICE_METHOD void score(uint32_t stage) {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < KEYS / 8; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) scores[m][n][i] = 0.0f;
#pragma unroll
        for (int d = 0; d < DIM / 16; ++d) {
            uint32_t q[M][4];
#pragma unroll
            for (int m = 0; m < M; ++m) {
                load_matrices(q[m], shared + at((warp * M + m) * 16 + lane % 16, 2 * d + lane / 16));
            }
#pragma unroll
            for (int n = 0; n < KEYS / 16; ++n) {
                uint32_t k[4];
                load_matrices(k, k_stage(stage) + at(n * 16 + lane / 16 * 8 + lane % 8, 2 * d + lane / 8 % 2));
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    multiply_add<T>(scores[m][2 * n], q[m], k[0], k[1]);
                    multiply_add<T>(scores[m][2 * n + 1], q[m], k[2], k[3]);
                }
            }
        }
    }

    // scores += biases, in units of the scores.
    DEVICE_METHOD void add_bias(uint32_t block) {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float *bias = a.biases(place.kv_head, place.position(a, (warp * M + m) * 16 + half * 8 + lane / 4));
#pragma unroll
                for (int n = 0; n < KEYS / 8; ++n)
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const uint32_t key = block * KEYS + n * 8 + lane % 4 * 2 + i;
                        // Keys after the path's end have no bias.
                        if (key <= place.last_key) scores[m][n][2 * half + i] += bias[-int(key)] * a.bias_scale;
                    }
            }
    }

    DEVICE_METHOD void mask(uint32_t block) {
        const bool all_seen = block * KEYS >= place.first_of_all && block * KEYS + KEYS - 1 <= place.last_of_all;
        if (all_seen) return;
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                // Queries after the last of the tile are not written, so it does not matter what they see.
                const uint32_t query = place.first + (warp * M + m) * 16 + half * 8 + lane / 4;
                const uint32_t position = place.span.depth + Place::offset(a, query);
                // The last and the first key that it sees, counted from this lane's first.
                const int origin = int(block * KEYS + lane % 4 * 2);
                const int last = int(a.last_key(position, place.last_key)) - origin;
                const int first = int(a.first_key(position)) - origin;
#pragma unroll
                for (int n = 0; n < KEYS / 8; ++n)
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const int key = n * 8 + i;
                        if (key > last || key < first) scores[m][n][2 * half + i] = -INFINITY;
                    }
            }
    }

    // Scores to weights, relative to the largest score so far; earlier sums are rescaled to it.
    DEVICE_METHOD void soften() {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float largest = maximum[m][half];
#pragma unroll
                for (int n = 0; n < KEYS / 8; ++n) {
                    largest = fmaxf(largest, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
                }
                // Four neighbouring lanes have a query's scores.
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 1));
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 2));
                // A query that has seen no key yet: its weights are 2^(-infinity - 0).
                const float seen = largest == -INFINITY ? 0.0f : largest, zero = seen * a.scale_log2;
                // Exactly 1 where the largest stays the same, whether or not products and sums are fused.
                const float factor = exp2_approx((maximum[m][half] - seen) * a.scale_log2);
                maximum[m][half] = largest;
                float sum = 0.0f;
#pragma unroll
                for (int n = 0; n < KEYS / 8; ++n)
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        float &score = scores[m][n][2 * half + i];
                        score = exp2_approx(score * a.scale_log2 - zero);
                        sum += score;
                    }
                // The sum over this lane's keys; lanes are added up at the end.
                total[m][half] = total[m][half] * factor + sum;
#pragma unroll
                for (int n = 0; n < DIM / 8; ++n) {
                    sums[m][n][2 * half] *= factor;
                    sums[m][n][2 * half + 1] *= factor;
                }
            }
    }

    // sums += weights V. The accumulators of two neighbouring products are the left operand of the next.
    DEVICE_METHOD void weigh(uint32_t stage) {
#pragma unroll
        for (int n = 0; n < KEYS / 16; ++n) {
            uint32_t weights[M][4];
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float(&pair)[4] = scores[m][2 * n + i / 2];
                    weights[m][i] = pack<T>(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
                }
#pragma unroll
            for (int d = 0; d < DIM / 16; ++d) {
                uint32_t v[4];
                load_matrices_transposed(v, v_stage(stage) + at(n * 16 + lane % 16, 2 * d + lane / 16));
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    multiply_add<T>(sums[m][2 * d], weights[m], v[0], v[1]);
                    multiply_add<T>(sums[m][2 * d + 1], weights[m], v[2], v[3]);
                }
            }
        }
    }

    // Divides by the totals and writes through this warp's own rows of Q, so that a row is written 16 bytes at a time.
    DEVICE_METHOD void write(unsigned char *memory) {
        __syncwarp(); // All lanes have read the warp's Q.
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float sum = total[m][half];
                sum += __shfl_xor_sync(0xffffffff, sum, 1);
                sum += __shfl_xor_sync(0xffffffff, sum, 2);
                const float scale = 1.0f / sum;
                const uint32_t row = (warp * M + m) * 16 + half * 8 + lane / 4;
#pragma unroll
                for (int n = 0; n < DIM / 8; ++n) {
                    const uint32_t word =
                        pack<T>(sums[m][n][2 * half] * scale, sums[m][n][2 * half + 1] * scale);
                    store_shared(reinterpret_cast<uint32_t *>(memory + at(row, n) + lane % 4 * 4), word);
                }
            }
        __syncwarp();
        typedef Vector<uint32_t, 4> Chunk;
        // Looked up again rather than kept: the loop needs the registers.
        const Place place(a, QUERIES);
        T *out = static_cast<T *>(a.out);
        for (uint32_t i = lane; i < 16 * M * CHUNKS; i += 32) {
            const uint32_t row = warp * 16 * M + i / CHUNKS, chunk = i % CHUNKS;
            if (row >= place.count) continue;
            T *to = out + place.row(a, row) * a.out_stride + place.column(a, row) + chunk * 8;
            *reinterpret_cast<Chunk *>(to) = load_shared(reinterpret_cast<const Chunk *>(memory + at(row, chunk)));
        }
    }

    template <typename Terms> DEVICE_METHOD void run(unsigned char *memory, const Terms &terms) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                maximum[m][half] = -INFINITY;
                total[m][half] = 0.0f;
            }
#pragma unroll
            for (int n = 0; n < DIM / 8; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[m][n][i] = 0.0f;
        }
        const uint32_t begin = place.first_key / KEYS, end = place.last_key / KEYS + 1;
        find_pages(begin);
        copy_q();
        copy_kv(begin % 2);
        if constexpr (Terms::ANY) terms.copy(*this, begin);
        copy_async_commit();
        find_pages(begin + 1);
        for (uint32_t block = begin; block < end; ++block) {
            // This thread's copies of the block are done; after the barrier all copies are, and all threads are
            // done with the previous block, whose stage the next copies overwrite.
            copy_async_wait_all();
            __syncthreads();
            if (block + 1 < end) {
                copy_kv((block + 1) % 2);
                copy_async_commit();
                find_pages(block + 2);
            }
            score(block % 2);
            if constexpr (Terms::ANY) terms.add(*this, block, block + 1 < end);
            if (a.bias) add_bias(block);
            mask(block);
            soften();
            weigh(block % 2);
        }
        write(memory);
    }
};

#include "attention_positions.cuh"

// Grid: tiles * num_kv_heads. Block: 128 threads. Shared memory: (16 * M * 4 + 4 * 64) * DIM * 2 bytes. Rows and heads begin
// at multiples of 16 bytes.
// BLOCKS is the number of blocks that should run at once on a multiprocessor of sm_90: the maximum that its shared memory
// allows, or fewer where more than a few registers would spill.
#define FLASH_ATTENTION(NAME, T, DIM, M, BLOCKS)                                                                       \
    KERNEL __launch_bounds__(128, BLOCKS) flash_attention_##NAME##_##DIM##_##M(const Attention a) {                    \
        DYNAMIC_SHARED(memory);                                                                                        \
        FlashTile<T, DIM, M> tile(a, shared_address(memory));                                                          \
        tile.run(memory, NoTerms());                                                                                   \
    }
FLASH_ATTENTION(bf16, bf16, 64, 1, 4)
FLASH_ATTENTION(bf16, bf16, 64, 2, 3)
FLASH_ATTENTION(bf16, bf16, 128, 1, 2)
FLASH_ATTENTION(bf16, bf16, 128, 2, 2)
FLASH_ATTENTION(f16, f16, 64, 1, 4)
FLASH_ATTENTION(f16, f16, 64, 2, 3)
FLASH_ATTENTION(f16, f16, 128, 1, 2)
FLASH_ATTENTION(f16, f16, 128, 2, 2)

// The same with relative position embeddings, whose products need shared memory in addition.
#define FLASH_ATTENTION_POSITIONS(NAME, T)                                                                             \
    KERNEL __launch_bounds__(128, 2) flash_attention_positions_##NAME##_64(const Attention a) {                        \
        DYNAMIC_SHARED(memory);                                                                                        \
        typedef FlashTile<T, 64, 1> Tile;                                                                              \
        Tile tile(a, shared_address(memory));                                                                          \
        tile.run(memory, PositionTerms<Tile, T>(memory + Tile::SHARED_BYTES));                                         \
    }
FLASH_ATTENTION_POSITIONS(bf16, bf16)
FLASH_ATTENTION_POSITIONS(f16, f16)
