// Attention on tensor cores, for bf16 and f16 and the head sizes of FLASH_TILES: FlashAttention-2's loop (arXiv 2307.08691)
// with keys and values read through a page table.
//
// A block has four warps; a warp has `M` times 16 queries. Keys and values come in blocks of KEYS positions, aligned to the
// path's start, each copied asynchronously to one of two stages of shared memory while the block before is computed.
#include "attention.cuh"

// Terms that a kernel adds to the products of queries and keys. `copy` starts the copies for the first block of keys; `add`
// changes the scores of a block, and starts the copies for the next. `NoTerms` has none.
struct NoTerms {
    template <typename Tile> DEVICE_METHOD void copy(const Tile &, uint32_t) const {}
    template <typename Tile> DEVICE_METHOD void add(Tile &, uint32_t, bool) const {}
};

// Biases by distance, in units of the scores.
struct BiasTerms : NoTerms {
    template <typename Tile> DEVICE_METHOD void add(Tile &tile, uint32_t block, bool) const {
#pragma unroll
        for (int m = 0; m < Tile::QUERIES / 64; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t query = (tile.warp * (Tile::QUERIES / 64) + m) * 16 + half * 8 + tile.lane / 4;
                const float *bias = tile.a.biases(tile.place.kv_head, tile.place.position(tile.a, query));
#pragma unroll
                for (int n = 0; n < Tile::KEYS / 8; ++n)
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const uint32_t key = block * Tile::KEYS + n * 8 + tile.lane % 4 * 2 + i;
                        // Keys after the path's end have no bias.
                        if (key <= tile.place.last_key) tile.scores[m][n][2 * half + i] += bias[-int(key)] * tile.a.bias_scale;
                    }
            }
    }
};

template <typename T, int DIM, int M> struct FlashTile {
    static constexpr int WARPS = 4, THREADS = 32 * WARPS, QUERIES = 16 * M * WARPS;
    // Fewer keys for heads of 256 values, so that a block takes 96 KiB: 99 is the maximum on compute capabilities 8.6, 8.9 and 12.0.
    static constexpr int KEYS = DIM > 128 ? 32 : 64;
    // A row in shared memory is DIM / 8 chunks of 16 bytes. SWIZZLE is the largest power of two, up to 8, that divides their number: after
    // 8 / SWIZZLE rows the next begins in the same banks. Chunk c of row r is at place c ^ (r / (8 / SWIZZLE) % SWIZZLE) of its row, so that
    // eight rows of a matrix are in different banks.
    static constexpr int CHUNKS = DIM / 8, DIVISOR = CHUNKS & -CHUNKS, SWIZZLE = DIVISOR < 8 ? DIVISOR : 8;
    // Passes in which all threads copy the rows of a block, a chunk each, and the rows that a warp's 32 chunks are in. DIVISOR is also the
    // largest common divisor of 32 and CHUNKS, so that a warp begins at most CHUNKS - DIVISOR chunks after the start of a row.
    static constexpr int PASSES = KEYS * CHUNKS / THREADS, WARP_ROWS = (CHUNKS - DIVISOR + 32 + CHUNKS - 1) / CHUNKS;
    static_assert(KEYS * CHUNKS % THREADS == 0 && QUERIES * CHUNKS % THREADS == 0, "whole passes");
    static_assert(DIM % 16 == 0 && DIM <= 256 && PASSES * WARP_ROWS <= 32, "a lane for each row that a warp copies");
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
        return row * ROW_BYTES + ((chunk ^ (row / (8 / SWIZZLE) % SWIZZLE)) * 16);
    }

    // The row of a thread's chunk in a pass, and the chunk's place in the row. Where a pass has whole rows, the form saves registers.
    DEVICE_METHOD static uint32_t copied_row(uint32_t pass, uint32_t thread) {
        if (THREADS % CHUNKS == 0) return pass * (THREADS / CHUNKS) + thread / CHUNKS;
        return (pass * THREADS + thread) / CHUNKS;
    }

    DEVICE_METHOD static uint32_t copied_chunk(uint32_t pass, uint32_t thread) {
        return THREADS % CHUNKS == 0 ? thread % CHUNKS : (pass * THREADS + thread) % CHUNKS;
    }

    DEVICE_METHOD uint32_t k_stage(uint32_t stage) const { return shared + Q_BYTES + stage * 2 * KV_BYTES; }

    DEVICE_METHOD uint32_t v_stage(uint32_t stage) const { return k_stage(stage) + KV_BYTES; }

    DEVICE_METHOD void copy_q() const {
        const T *q = static_cast<const T *>(a.q);
#pragma unroll
        for (uint32_t i = 0; i < QUERIES * CHUNKS / THREADS; ++i) {
            const uint32_t row = copied_row(i, threadIdx.x), chunk = copied_chunk(i, threadIdx.x);
            const T *from = q + place.row(a, row) * a.q_stride + place.column(a, row) + chunk * 8;
            copy_async_16(shared + at(row, chunk), from, row < place.count);
        }
    }

    // Looks up the rows of a block of keys well before they are copied. Keys that no query sees may be off the path.
    DEVICE_METHOD void find_pages(uint32_t block) {
        const uint32_t i = lane % (PASSES * WARP_ROWS);
        const uint32_t key = block * KEYS + copied_row(i / WARP_ROWS, warp * 32) + i % WARP_ROWS;
        page = key <= place.last_key ? a.pages[place.span.path + key] : NO_PAGE;
    }

    DEVICE_METHOD void copy_kv(uint32_t stage) const {
#pragma unroll
        for (uint32_t i = 0; i < PASSES; ++i) {
            const uint32_t row = copied_row(i, threadIdx.x), chunk = copied_chunk(i, threadIdx.x), column = place.kv_head * DIM + chunk * 8;
            const uint32_t from_row = __shfl_sync(0xffffffff, page, i * WARP_ROWS + (THREADS % CHUNKS ? row - copied_row(i, warp * 32) : lane / CHUNKS));
            const bool valid = from_row != NO_PAGE;
            const size_t from = size_t(valid ? from_row : 0) * a.kv_stride + column;
            copy_async_16(k_stage(stage) + at(row, chunk), static_cast<const T *>(a.k) + from, valid);
            copy_async_16(v_stage(stage) + at(row, chunk), static_cast<const T *>(a.v) + from, valid);
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
        // Up to heads of 64 values all at once; wider heads with M = 2 would spill more.
#pragma unroll 4
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

    DEVICE_METHOD void mask(uint32_t block) {
        const bool all_seen = block * KEYS >= place.first_of_all && block * KEYS + KEYS - 1 <= place.last_of_all;
        if (all_seen) return;
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                // Queries after the last of the tile are not written, so it does not matter what they see.
                const uint32_t query = computed_here(place.first + (warp * M + m) * 16 + half * 8 + lane / 4);
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
                // Backwards: with M = 2 fewer registers spill.
#pragma unroll
                for (int n = KEYS / 8 - 1; n >= 0; --n)
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
        terms.copy(*this, begin);
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
            terms.add(*this, block, block + 1 < end);
            mask(block);
            soften();
            weigh(block % 2);
        }
        write(memory);
    }
};

#include "attention_positions.cuh"

// The kernels of a type as X(T, head size, M, blocks). BLOCKS is the number of blocks that should run at once on a multiprocessor of sm_90:
// the maximum that its shared memory allows, or fewer where registers would spill, except for up to four.
//
// Heads of 80, 96 and 256 values have M = 1 only: few models have 80 and 96, and sums of 256 values take 128 registers already. With
// biases there are the head sizes of models that have them (MPNet, ALiBi, T5).
#define FLASH_TILES(X, T)                                                                                              \
    X(T, 32, 1, 6) X(T, 32, 2, 4) X(T, 64, 1, 4) X(T, 64, 2, 3) X(T, 80, 1, 3) X(T, 96, 1, 3) X(T, 128, 1, 2)          \
    X(T, 128, 2, 2) X(T, 256, 1, 2)
#define FLASH_BIAS_TILES(X, T) X(T, 64, 1, 4) X(T, 64, 2, 3) X(T, 128, 1, 2) X(T, 128, 2, 2)
#define FLASH_POSITIONS_TILES(X, T) X(T, 64, 1, 2)

// Grid: tiles * num_kv_heads. Block: 128 threads. Shared memory: FlashTile::SHARED_BYTES. Rows and heads begin at multiples of 16 bytes.
#define FLASH_ATTENTION(T, DIM, M, BLOCKS)                                                                             \
    KERNEL __launch_bounds__(128, BLOCKS) flash_attention_##T##_##DIM##_##M(const Attention a) {                       \
        DYNAMIC_SHARED(memory);                                                                                        \
        FlashTile<T, DIM, M> tile(a, shared_address(memory));                                                          \
        tile.run(memory, NoTerms());                                                                                   \
    }
FLASH_TILES(FLASH_ATTENTION, bf16)
FLASH_TILES(FLASH_ATTENTION, f16)

#define FLASH_ATTENTION_BIAS(T, DIM, M, BLOCKS)                                                                        \
    KERNEL __launch_bounds__(128, BLOCKS) flash_attention_bias_##T##_##DIM##_##M(const Attention a) {                  \
        DYNAMIC_SHARED(memory);                                                                                        \
        FlashTile<T, DIM, M> tile(a, shared_address(memory));                                                          \
        tile.run(memory, BiasTerms());                                                                                 \
    }
FLASH_BIAS_TILES(FLASH_ATTENTION_BIAS, bf16)
FLASH_BIAS_TILES(FLASH_ATTENTION_BIAS, f16)

// The same with relative position embeddings, whose products need shared memory in addition.
#define FLASH_ATTENTION_POSITIONS(T, DIM, M, BLOCKS)                                                                   \
    KERNEL __launch_bounds__(128, BLOCKS) flash_attention_positions_##T##_##DIM##_##M(const Attention a) {             \
        DYNAMIC_SHARED(memory);                                                                                        \
        typedef FlashTile<T, DIM, M> Tile;                                                                             \
        Tile tile(a, shared_address(memory));                                                                          \
        tile.run(memory, PositionTerms<Tile, T>(memory + Tile::SHARED_BYTES));                                         \
    }
FLASH_POSITIONS_TILES(FLASH_ATTENTION_POSITIONS, bf16)
FLASH_POSITIONS_TILES(FLASH_ATTENTION_POSITIONS, f16)
