// Checks of both attention kernels over paths of trees and over whole sequences.
#pragma once
#include "../attention.cu"
#include "support.h"
namespace plain {
#include "../attention_plain.cu"
}
#include <map>

// Queries with their page table.
struct Paths {
    std::vector<uint32_t> pages;
    std::vector<Span> spans;
    uint32_t rows = 0;
    // Every query sees its whole path, not only earlier positions.
    bool full = false;

    uint32_t longest() const {
        uint32_t longest = 0;
        for (const Span &span : spans) longest = std::max(longest, span.path_len);
        return longest;
    }
};

// Sequences that share prefixes, in compact space.
static Paths tree(uint32_t sequences, uint32_t max_len) {
    Paths paths;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> nodes;
    std::vector<std::vector<uint32_t>> all;
    for (uint32_t s = 0; s < sequences; ++s) {
        std::vector<uint32_t> tokens = all.empty() ? std::vector<uint32_t>() : all[below(uint32_t(all.size()))];
        tokens.resize(std::min<size_t>(tokens.size(), below(max_len + 1)));
        const uint32_t len = 1 + below(max_len);
        while (tokens.size() < len) tokens.push_back(below(1000));
        const uint32_t path = uint32_t(paths.pages.size()), first = paths.rows, path_len = uint32_t(tokens.size());
        uint32_t parent = 0xffffffff;
        for (uint32_t token : tokens) {
            auto [node, is_new] = nodes.insert({{parent, token}, paths.rows});
            paths.rows += is_new;
            parent = node->second;
            paths.pages.push_back(parent);
        }
        const uint32_t added = paths.rows - first;
        if (added) paths.spans.push_back({first, added, path_len - added, path, path_len});
        all.push_back(tokens);
    }
    return paths;
}

// Whole sequences over a shuffled page table, in spans of at most `longest` queries.
static Paths whole(uint32_t sequences, uint32_t max_len, uint32_t longest) {
    Paths paths;
    paths.full = true;
    for (uint32_t s = 0; s < sequences; ++s) {
        const uint32_t len = 1 + below(max_len), start = paths.rows;
        for (uint32_t done = 0; done < len; done += longest) {
            paths.spans.push_back({start + done, std::min(longest, len - done), done, start, len});
        }
        paths.rows += len;
    }
    for (uint32_t row = 0; row < paths.rows; ++row) paths.pages.push_back(row);
    std::shuffle(paths.pages.begin(), paths.pages.end(), generator);
    return paths;
}

struct Case {
    uint32_t heads, kv_heads, dim, window;
    uint32_t queries, shared;
    bool backwards, bias;
    // Relative position embeddings as keys (1) and as queries (2).
    uint32_t positions = 0;
};

// The row of each distance of paths of up to `longest` positions, from 1 on; each distance has its own row, or some share one. Entries
// around them are rows out of range.
static std::vector<uint32_t> distance_rows(uint32_t longest, bool apart) {
    std::vector<uint32_t> rows = {0x7fffffff, 1};
    while (rows.size() < 2 * longest) rows.push_back(rows.back() + (apart ? 1 : below(2)));
    rows.push_back(0x7fffffff);
    return rows;
}

// A table of relative position embeddings, with NaN in the rows before the first and after the last distance's row.
template <typename T> Array<T> position_table(uint32_t last, uint32_t width) {
    Array<T> table = random_values<T>(size_t(last + 2) * width, 1.0f);
    for (uint32_t i = 0; i < width; ++i) table[i] = table[size_t(last + 1) * width + i] = from_float<T>(NAN);
    return table;
}

template <typename T>
void check_attention(const std::string &name, const Case &c, const Paths &paths, void (*kernel)(const Attention)) {
    const uint32_t group = c.heads / c.kv_heads, width = (c.heads + 2 * c.kv_heads) * c.dim, out_width = c.heads * c.dim;
    // A row of NaN that no page names.
    Array<T> qkv = random_values<T>(size_t(paths.rows + 1) * width), out(size_t(paths.rows) * out_width);
    for (uint32_t i = 0; i < width; ++i) qkv[size_t(paths.rows) * width + i] = from_float<T>(NAN);
    std::vector<Tile> tiles;
    for (uint32_t s = 0; s < paths.spans.size(); ++s)
        for (uint32_t t = 0; t * c.queries < paths.spans[s].len * group; ++t) tiles.push_back({s, t});
    std::shuffle(tiles.begin(), tiles.end(), generator);
    // Reads beyond the end find a page out of range.
    std::vector<uint32_t> pages(paths.pages);
    pages.resize(pages.size() + 64, 0x7fffffff);
    // A table with values for the distances of the longest path, and NaN around the values of each head.
    const uint32_t origin = paths.longest(), stride = 2 * origin + 1;
    Array<float> biases = random_values<float>(size_t(c.heads) * stride);
    for (uint32_t h = 0; h < c.heads; ++h) biases[h * stride] = biases[(h + 1) * stride - 1] = NAN;
    const std::vector<uint32_t> distances = distance_rows(origin, c.backwards);
    const uint32_t last_row = distances[distances.size() - 2];
    Array<T> position_keys = position_table<T>(last_row, out_width), position_queries = position_table<T>(last_row, out_width);
    const float scale = 1.0f / std::sqrt(float(c.dim));
    const Attention a = {qkv.get(), qkv.get() + c.heads * c.dim, qkv.get() + (c.heads + c.kv_heads) * c.dim, out.get(),
                         pages.data(), paths.spans.data(), tiles.data(), width, width, out_width, c.kv_heads, group, c.dim,
                         group == 1 ? 0 : uint32_t(((1ull << 32) + group - 1) / group), c.window,
                         !paths.full ? 0 : c.window ? c.window - 1 : 1u << 30, scale * 1.44269504f, 1 / scale,
                         c.bias ? biases.get() : nullptr, stride, origin,
                         c.positions & 1 ? position_keys.get() : nullptr, c.positions & 2 ? position_queries.get() : nullptr,
                         c.positions ? distances.data() : nullptr, origin, c.queries};
    emulation::launch(uint32_t(tiles.size()) * c.kv_heads, 128, c.shared, c.backwards, [&] { kernel(a); });
    out.check_guards(name);
    for (const Span &span : paths.spans)
        for (uint32_t i = 0; i < span.len; ++i) {
            const uint32_t position = span.depth + i, row = span.row + i;
            const uint32_t reach = c.window ? c.window - 1 : 1u << 30, first = position > reach ? position - reach : 0;
            const uint32_t last = paths.full ? std::min(position + reach, span.path_len - 1) : position;
            for (uint32_t h = 0; h < c.heads; ++h) {
                auto q = [&](uint32_t d) { return double(to_float(qkv[size_t(row) * width + h * c.dim + d])); };
                auto kv = [&](uint32_t p, uint32_t which, uint32_t d) {
                    const uint32_t column = (c.heads + which * c.kv_heads + h / group) * c.dim + d;
                    return double(to_float(qkv[size_t(paths.pages[span.path + p]) * width + column]));
                };
                std::vector<double> weights, mean(c.dim);
                double total = 0, largest = -INFINITY;
                for (uint32_t p = first; p <= last; ++p) {
                    double score = 0;
                    for (uint32_t d = 0; d < c.dim; ++d) score += q(d) * kv(p, 0, d);
                    for (uint32_t d = 0; d < c.dim && c.positions; ++d) {
                        const size_t at = size_t(distances[origin + position - p]) * out_width + h * c.dim + d;
                        if (c.positions & 1) score += q(d) * to_float(position_keys[at]);
                        if (c.positions & 2) score += kv(p, 0, d) * to_float(position_queries[at]);
                    }
                    weights.push_back(score * scale + (c.bias ? biases[h * stride + origin + position - p] : 0.0f));
                    largest = std::max(largest, weights.back());
                }
                for (double &w : weights) total += w = std::exp(w - largest);
                for (uint32_t p = first; p <= last; ++p)
                    for (uint32_t d = 0; d < c.dim; ++d) mean[d] += weights[p - first] / total * kv(p, 1, d);
                for (uint32_t d = 0; d < c.dim; ++d) {
                    const double found = to_float(out[size_t(row) * out_width + h * c.dim + d]);
                    close(name, size_t(row) * out_width + h * c.dim + d, found, mean[d], sizeof(T) == 4 ? 1e-5 : 2e-2);
                }
            }
        }
}

// Kernels with biases have a group of 1.
template <typename T, int DIM, int M> void check_flash(const std::string &name, bool bias, void (*kernel)(const Attention)) {
    typedef FlashTile<T, DIM, M> Flash;
    const uint32_t heads[][2] = {{1, 1}, {4, 2}, {7, 1}, {2, 2}}, windows[] = {0, 1, 5, 64, 70}, lengths[] = {3, 20, 90, 150};
    for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t *h = heads[bias ? i % 2 * 3 : i % 4], length = lengths[(i / 2) % 4];
        const Case c = {h[0], h[1], DIM, windows[i % 5], Flash::QUERIES, Flash::SHARED_BYTES, i % 2 == 1, bias};
        check_attention<T>(name, c, tree(4, length), kernel);
        const Case full = {h[0], h[1], DIM, windows[(i + 1) % 5], Flash::QUERIES, Flash::SHARED_BYTES, i % 2 == 1, bias};
        check_attention<T>(name + " full", full, whole(3, length, i % 3 ? length : 1 + i), kernel);
    }
    printf("ok %s\n", name.c_str());
}

// With relative position embeddings: fewer queries than a tile has, several blocks of keys, windows, and each term alone.
template <typename T> void check_flash_positions(const std::string &name, void (*kernel)(const Attention)) {
    typedef FlashTile<T, 64, 1> Flash;
    const uint32_t shared = Flash::SHARED_BYTES + PositionTerms<Flash, T>::SHARED_BYTES;
    const uint32_t windows[] = {0, 0, 70, 5}, lengths[] = {150, 20, 260, 90};
    for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t heads = 1 + i % 2, length = lengths[i % 4];
        const Case c = {heads, heads, 64, windows[i / 2], Flash::QUERIES, shared, i % 2 == 1, false, i < 5 ? 3 : i % 2 + 1};
        check_attention<T>(name, c, tree(3, length), kernel);
        check_attention<T>(name + " full", c, whole(2, length, i % 3 ? length : 40), kernel);
    }
    printf("ok %s\n", name.c_str());
}

// Many blocks of keys with one large score: as the largest never changes, early keys must not lose or gain weight.
static void check_drift() {
    const uint32_t dim = 64, keys = 4096;
    Array<f16> qkv(size_t(keys) * 3 * dim), out(size_t(keys) * dim);
    for (uint32_t p = 0; p < keys; ++p)
        for (uint32_t d = 0; d < dim; ++d) {
            f16 *row = &qkv[size_t(p) * 3 * dim];
            row[d] = from_float<f16>(4.83f), row[dim + d] = from_float<f16>(4.87f), row[2 * dim + d] = from_float<f16>(p < keys / 2 ? 1 : -1);
        }
    std::vector<uint32_t> pages(keys);
    for (uint32_t p = 0; p < keys; ++p) pages[p] = p;
    const Span span = {keys - 1, 1, keys - 1, 0, keys};
    const Tile tile = {0, 0};
    const Attention a = {qkv.get(), qkv.get() + dim, qkv.get() + 2 * dim, out.get(), pages.data(), &span, &tile, 3 * dim, 3 * dim, dim,
                         1, 1, dim, 0, 0, 0, 0.125f * 1.44269504f, 8, nullptr, 0, 0};
    emulation::launch(1, 128, FlashTile<f16, 64, 1>::SHARED_BYTES, false, [&] { flash_attention_f16_64_1(a); });
    for (uint32_t d = 0; d < dim; ++d) close("drift", d, to_float(out[size_t(keys - 1) * dim + d]), 0, 1e-5);
}

template <typename T> void check_plain(const std::string &name, void (*kernel)(const Attention)) {
    const uint32_t dims[] = {1, 5, 20, 64, 80, 128}, windows[] = {0, 1, 7, 40};
    for (uint32_t i = 0; i < 12; ++i) {
        const uint32_t dim = dims[i % 6], heads = 3 * (1 + i % 2), queries = i % 3 ? 64 : 128;
        // The kernel's argument type comes from its own namespace's copy of the header, which is identical.
        const Case c = {heads, 3, dim, windows[i % 4], queries, 4 * 2 * dim * 4, i % 2 == 1, heads == 3,
                        heads == 3 ? i / 2 % 4 : 0};
        check_attention<T>(name, c, tree(4, 70), kernel);
        const Case full = {3, 3, dim, windows[i / 3], queries, 4 * 2 * dim * 4, i % 2 == 1, i % 2 == 0, i % 4};
        check_attention<T>(name + " full", full, whole(3, 70, i % 3 ? 70 : 1 + i), kernel);
    }
    printf("ok %s\n", name.c_str());
}
