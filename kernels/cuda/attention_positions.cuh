// Products of queries and keys with relative position embeddings, for attention on tensor cores: disentangled attention
// (arXiv 2006.03654).
//
// A tile's queries and a block's keys are at fewer than ROWS distances, whose embeddings are in shared memory: memory grows neither
// with the square of the length nor with the rows of the tables. A warp multiplies its 16 queries with the WINDOW rows that they
// need, and 16 of the keys with the WINDOW rows that these keys need; a score finds its two products by the row of its distance.
#pragma once

template <typename Tile, typename T> struct PositionTerms {
    static constexpr uint32_t ROWS = 128, WINDOW = 80;
    // Stride of the rows of products in values, chosen so that lanes of a warp write to different banks.
    static constexpr uint32_t STRIDE = 88;
    static constexpr uint32_t TABLE_BYTES = ROWS * Tile::ROW_BYTES, SHARED_BYTES = 2 * TABLE_BYTES + 64 * STRIDE * 4;
    static constexpr int DIM = Tile::CHUNKS * 8, PASSES = ROWS * Tile::CHUNKS / Tile::THREADS;
    static_assert(Tile::QUERIES + Tile::KEYS - 1 <= ROWS && Tile::QUERIES == 64 && Tile::KEYS == 64, "16 of each for a warp");

    // The rows of the block's distances of keys and of queries.
    const uint32_t tables;
    // [64, STRIDE]: 16 rows of products for each warp.
    float *products;

    DEVICE_METHOD explicit PositionTerms(unsigned char *memory)
        : tables(shared_address(memory)), products(reinterpret_cast<float *>(memory + 2 * TABLE_BYTES)) {}

    // The row of the distance of query `i` of the tile and a key of the block; keys after the last one mean the last.
    DEVICE_METHOD static uint32_t row(const Tile &tile, uint32_t i, uint32_t key) {
        const uint32_t last = tile.place.last_key;
        return tile.a.rows(tile.place.position(tile.a, i))[-int(key < last ? key : last)];
    }

    // The first row that a block needs, and the first row that 16 of its queries or keys need.
    DEVICE_METHOD static uint32_t first_row(const Tile &tile, uint32_t block) {
        return row(tile, 0, block * Tile::KEYS + Tile::KEYS - 1);
    }

    DEVICE_METHOD static uint32_t first_of_queries(const Tile &tile, uint32_t block, uint32_t sixteen) {
        return row(tile, sixteen * 16, block * Tile::KEYS + Tile::KEYS - 1);
    }

    DEVICE_METHOD static uint32_t first_of_keys(const Tile &tile, uint32_t block, uint32_t sixteen) {
        return row(tile, 0, block * Tile::KEYS + sixteen * 16 + 15);
    }

    // Starts the copies of a block's rows.
    DEVICE_METHOD void copy(const Tile &tile, uint32_t block) const {
        const Attention &a = tile.a;
        const uint32_t first = first_row(tile, block), last = row(tile, Tile::QUERIES - 1, block * Tile::KEYS);
#pragma unroll
        for (uint32_t i = 0; i < PASSES; ++i) {
            const uint32_t to = Tile::copied_row(i, threadIdx.x), chunk = Tile::copied_chunk(i, threadIdx.x);
            const bool valid = first + to <= last;
            const size_t from = (size_t(valid ? first + to : first) * a.num_kv_heads + tile.place.kv_head) * DIM + chunk * 8;
            const uint32_t address = tables + Tile::at(to, chunk);
            if (a.position_keys) copy_async_16(address, static_cast<const T *>(a.position_keys) + from, valid);
            if (a.position_queries) {
                copy_async_16(address + TABLE_BYTES, static_cast<const T *>(a.position_queries) + from, valid);
            }
        }
    }

    // The products of this warp's 16 rows of a matrix and the WINDOW rows of a table from `first` on.
    DEVICE_METHOD void multiply(const Tile &tile, uint32_t matrix, uint32_t table, uint32_t first) const {
        const uint32_t lane = tile.lane;
#pragma unroll 1
        for (uint32_t n = 0; n < WINDOW; n += 16) {
            float sums[2][4] = {};
#pragma unroll
            for (int d = 0; d < DIM / 16; ++d) {
                uint32_t left[4], right[4];
                load_matrices(left, matrix + Tile::at(tile.warp * 16 + lane % 16, 2 * d + lane / 16));
                load_matrices(right, table + Tile::at(first + n + lane / 16 * 8 + lane % 8, 2 * d + lane / 8 % 2));
                multiply_add<T>(sums[0], left, right[0], right[1]);
                multiply_add<T>(sums[1], left, right[2], right[3]);
            }
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    float *to = products + (tile.warp * 16 + half * 8 + lane / 4) * STRIDE + n + j * 8 + lane % 4 * 2;
                    const Vector<float, 2> pair = {{sums[j][2 * half], sums[j][2 * half + 1]}};
                    store_shared(reinterpret_cast<Vector<float, 2> *>(to), pair);
                }
        }
    }

    // Adds to each score `product(query, key, row)`: the query of the tile, the key of the block, and the row of their distance.
    template <typename Product> DEVICE_METHOD static void add_each(Tile &tile, uint32_t block, Product product) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t query = tile.warp * 16 + half * 8 + tile.lane / 4;
            const uint32_t *rows = tile.a.rows(tile.place.position(tile.a, query));
#pragma unroll
            for (int n = 0; n < Tile::KEYS / 8; ++n)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const uint32_t key = n * 8 + tile.lane % 4 * 2 + i, position = block * Tile::KEYS + key;
                    // Keys after the path's end have no row.
                    if (position <= tile.place.last_key) {
                        tile.scores[0][n][2 * half + i] += product(query, key, rows[-int(position)]);
                    }
                }
        }
    }

    // Adds the products to the scores of a block whose rows have been copied, and starts the copies of the next block's rows.
    DEVICE_METHOD void add(Tile &tile, uint32_t block, bool has_next) const {
        const uint32_t first = first_row(tile, block), warp = tile.warp;
        if (tile.a.position_keys) {
            const uint32_t start = first_of_queries(tile, block, warp);
            multiply(tile, tile.shared, tables, start - first);
            __syncwarp();
            add_each(tile, block, [&](uint32_t query, uint32_t, uint32_t row) { return load_shared(products + query * STRIDE + row - start); });
            __syncwarp(); // All lanes have read the warp's products.
        }
        if (tile.a.position_queries) {
            multiply(tile, tile.k_stage(block % 2), tables + TABLE_BYTES, first_of_keys(tile, block, warp) - first);
        }
        // All warps have written the products of their keys, and are done with the rows.
        __syncthreads();
        if (has_next) {
            copy(tile, block + 1);
            copy_async_commit();
        }
        if (!tile.a.position_queries) return;
        uint32_t starts[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) starts[i] = first_of_keys(tile, block, i);
        add_each(tile, block, [&](uint32_t, uint32_t key, uint32_t row) { return load_shared(products + key * STRIDE + row - starts[key / 16]); });
    }
};
