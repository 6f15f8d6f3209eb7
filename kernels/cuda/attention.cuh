// Attention over the paths of a radix plan, or over whole sequences: code shared by both kernels.
//
// A *span* is a run of queries at neighbouring positions of a path: rows `row .. row + len` of `q`, the first at path
// position `depth`. The key and value of path position p are row `pages[path + p]`: a page table with pages of one token.
// `path_len` is the number of path positions that its queries may see. A *query* here is one head at one position; the
// `group` query heads that share a key/value head are adjacent, so query i of a span is head `i % group` of the group at
// position `i / group`. A *tile* is a run of neighbouring queries of a span for one key/value head; a block of threads computes it.
#pragma once
#include "common.cuh"

struct Span {
    uint32_t row, len, depth, path, path_len;
};

struct Tile {
    uint32_t span, index;
};

struct Attention {
    const void *q, *k, *v;
    void *out;
    const uint32_t *pages;
    const Span *spans;
    const Tile *tiles;
    // Elements from one row to the next.
    uint32_t q_stride, kv_stride, out_stride;
    uint32_t num_kv_heads, group, head_dim;
    // 2^32 / group rounded up; 0 for a group of 1, where that is too large.
    uint32_t group_inverse;
    // A query at position p sees no key before p - window + 1 (0: no such limit), and of its path none after p + ahead.
    uint32_t window, ahead;
    // On the scores, times log2(e).
    float scale_log2;
    // Bias of a query at position p for a key at position k: bias[head * bias_stride + bias_origin + p - k] * bias_scale, added
    // before `scale_log2` is applied; none: nullptr. Only with a group of 1.
    float bias_scale;
    const float *bias;
    uint32_t bias_stride, bias_origin;
    // Relative position embeddings as keys and as queries, [rows, num_kv_heads * head_dim], each with its head's columns; none: nullptr.
    // The score of a query at position p and a key at position k uses row r = distance_rows[distance_origin + p - k] of both: the products
    // of the query with position key r, and of the key with position query r, are added. r does not decrease with the distance and grows by
    // at most one per step. Only with a group of 1.
    const void *position_keys, *position_queries;
    const uint32_t *distance_rows;
    uint32_t distance_origin;
    // Queries of a tile.
    uint32_t tile_queries;

    DEVICE_METHOD uint32_t first_key(uint32_t position) const {
        return window && position >= window ? position - window + 1 : 0;
    }

    // `end` is the path's last position, or the position of the last key that a query at or after this one sees.
    DEVICE_METHOD uint32_t last_key(uint32_t position, uint32_t end) const {
        return position + ahead < end ? position + ahead : end;
    }

    // The biases of a query by its distance from the keys: the bias of key k is [-k].
    DEVICE_METHOD const float *biases(uint32_t head, uint32_t position) const {
        return bias + size_t(head) * bias_stride + bias_origin + position;
    }

    // The rows of a query's distances from the keys: the row of key k is [-k].
    DEVICE_METHOD const uint32_t *rows(uint32_t position) const { return distance_rows + distance_origin + position; }
};

// The block's tile of `queries` queries. The grid has one block for each key/value head of each tile; the heads of a
// tile are adjacent, so that tiles start in their order.
struct Place {
    Span span;
    uint32_t kv_head, first, count;
    // Path positions of the first and last key that any query sees, and of the first and last key that all queries see.
    uint32_t first_key, last_key, first_of_all, last_of_all;

    DEVICE_METHOD Place(const Attention &a, uint32_t queries) {
        const Tile tile = a.tiles[blockIdx.x / a.num_kv_heads];
        kv_head = blockIdx.x % a.num_kv_heads;
        span = a.spans[tile.span];
        first = tile.index * queries;
        const uint32_t left = span.len * a.group - first;
        count = left < queries ? left : queries;
        const uint32_t first_position = span.depth + offset(a, first), end = span.path_len - 1;
        const uint32_t last_position = span.depth + offset(a, first + count - 1);
        first_key = a.first_key(first_position);
        last_key = a.last_key(last_position, end);
        first_of_all = a.first_key(last_position);
        last_of_all = a.last_key(first_position, end);
    }

    // A query's position in its span. The product's high half is the quotient while span.len * group^2 is below 2^32.
    DEVICE_METHOD static uint32_t offset(const Attention &a, uint32_t query) {
        return a.group_inverse ? __umulhi(query, a.group_inverse) : query;
    }

    // Position of query `i` of the tile; indices after the last query mean the last.
    DEVICE_METHOD uint32_t query(uint32_t i) const { return first + (i < count ? i : count - 1); }

    DEVICE_METHOD uint32_t position(const Attention &a, uint32_t i) const { return span.depth + offset(a, query(i)); }

    DEVICE_METHOD size_t row(const Attention &a, uint32_t i) const { return span.row + offset(a, query(i)); }

    // The first column of the query's head.
    DEVICE_METHOD uint32_t column(const Attention &a, uint32_t i) const {
        const uint32_t head = query(i) - offset(a, query(i)) * a.group;
        return (kv_head * a.group + head) * a.head_dim;
    }
};
