// Runs every kernel in emulation on random inputs and compares with plain loops in double precision.
//
//     c++ -std=c++17 -O2 -DPREFOLD_EMULATION -I kernels/cuda kernels/cuda/emulation/check.cpp -o check && ./check
#include "../activation.cu"
#include "../attention.cu"
#include "../norm.cu"
#include "../rope.cu"
#include "../rows.cu"
namespace plain {
#include "../attention_plain.cu"
}
#include <map>
#include <random>
#include <string>

static std::mt19937 generator(7);

static uint32_t below(uint32_t limit) { return std::uniform_int_distribution<uint32_t>(0, limit - 1)(generator); }

static double worst(0);

// NaN fails.
static void close(const std::string &what, size_t index, double found, double expected, double tolerance) {
    const double error = std::abs(found - expected);
    if (!(error <= tolerance)) {
        printf("FAILED %s [%zu]: %g, expected %g within %g\n", what.c_str(), index, found, expected, tolerance);
        exit(1);
    }
    worst = std::max(worst, error / tolerance);
}

// Memory aligned to 64 bytes with room on both sides that must not change.
template <typename T> struct Array {
    size_t len;
    std::vector<unsigned char> bytes;
    unsigned char *start;
    static constexpr size_t GUARD = 64;

    explicit Array(size_t len) : len(len), bytes(len * sizeof(T) + 3 * GUARD, 0xff) {
        start = bytes.data() + (2 * GUARD - reinterpret_cast<uintptr_t>(bytes.data()) % GUARD);
        memset(start, 0xff, len * sizeof(T));
    }
    Array(const Array &other) : Array(other.len) { memcpy(start, other.start, len * sizeof(T)); }

    T *get() { return reinterpret_cast<T *>(start); }
    T &operator[](size_t i) { return get()[i]; }

    void check_guards(const std::string &what) const {
        for (const unsigned char *p = bytes.data(); p < bytes.data() + bytes.size(); ++p) {
            const bool inside = p >= start && p < start + len * sizeof(T);
            if (!inside && *p != 0xff) {
                printf("FAILED %s: written outside\n", what.c_str());
                exit(1);
            }
        }
    }
};

template <typename T> Array<T> random_values(size_t len, float size = 1.7f) {
    Array<T> values(len);
    std::uniform_real_distribution<float> distribution(-size, size);
    for (size_t i = 0; i < len; ++i) values[i] = from_float<T>(distribution(generator));
    return values;
}

template <typename T> constexpr double rounding() { return sizeof(T) == 4 ? 4e-6 : 1.0 / 128; }

template <typename Unit> void check_gather(uint32_t width, void (*kernel)(const Unit *, const uint32_t *, Unit *, uint32_t, uint32_t, uint32_t)) {
    const uint32_t src_rows = 7, rows = 13;
    Array<Unit> src(src_rows * width), out(rows * width);
    for (size_t i = 0; i < src_rows * width * sizeof(Unit); ++i) src.start[i] = uint8_t(below(256));
    Array<uint32_t> index(rows);
    for (uint32_t i = 0; i < rows; ++i) index[i] = i == 5 ? src_rows : below(src_rows);
    emulation::launch((rows + 7) / 8, 256, 0, false, [&] { kernel(src.get(), index.get(), out.get(), rows, src_rows, width); });
    const std::string what = "gather of " + std::to_string(width) + " x " + std::to_string(sizeof(Unit));
    out.check_guards(what);
    for (uint32_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < width * sizeof(Unit); ++j) {
            const uint8_t expected = i == 5 ? 0xff : src.start[index[i] * width * sizeof(Unit) + j];
            close(what, i, out.start[i * width * sizeof(Unit) + j], expected, 0);
        }
    }
}

template <typename T>
void check_embed(uint32_t width, void (*kernel)(const T *, const uint32_t *, float *, uint32_t, uint32_t)) {
    Array<T> table = random_values<T>(9 * width);
    Array<uint32_t> ids(4);
    ids[0] = 8, ids[1] = 0, ids[2] = 9, ids[3] = 3;
    Array<float> out(4 * width);
    emulation::launch(4, 64, 0, false, [&] { kernel(table.get(), ids.get(), out.get(), 9, width); });
    out.check_guards("embed");
    for (uint32_t i = 0; i < 4 * width; ++i) {
        if (i / width == 2) {
            if (out[i] == out[i]) close("embed outside", i, 0, 1, 0);
        } else {
            close("embed", i, out[i], to_float(table[ids[i / width] * width + i % width]), 0);
        }
    }
}

template <typename T>
void check_norm(uint32_t width, bool add, void (*kernel)(float *, const T *, const float *, float, T *, uint32_t)) {
    const uint32_t rows = 3;
    Array<float> x = random_values<float>(rows * width), before(x), weight = random_values<float>(width);
    Array<T> delta = random_values<T>(rows * width), out(rows * width);
    emulation::launch(rows, 128, 0, width % 2, [&] {
        kernel(x.get(), add ? delta.get() : nullptr, weight.get(), 1e-6f, out.get(), width);
    });
    const std::string what = "norm " + std::to_string(width) + (add ? " add" : "");
    out.check_guards(what), x.check_guards(what);
    for (uint32_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (uint32_t i = r * width; i < (r + 1) * width; ++i) {
            const double value = double(before[i]) + (add ? double(to_float(delta[i])) : 0);
            close(what + " x", i, x[i], value, 1e-6);
            squares += value * value;
        }
        for (uint32_t i = 0; i < width; ++i) {
            const double expected = x[r * width + i] / std::sqrt(squares / width + 1e-6) * weight[i];
            close(what, i, to_float(out[r * width + i]), expected, rounding<T>() * (std::abs(expected) + 1e-3));
        }
    }
}

template <typename T> using RopeKernel = void (*)(T *, const uint32_t *, const float *, const float *, uint32_t, uint32_t,
                                                  const float *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, float);

// `wide` is how many values the kernel reads at once.
template <typename T>
void check_rope(uint32_t dim, uint32_t heads, uint32_t kv_heads, bool norm, uint32_t wide, RopeKernel<T> kernel) {
    const uint32_t rows = 5, positions = 50, half = dim / 2, width = (heads + 2 * kv_heads) * dim;
    Array<T> x = random_values<T>(rows * width), before(x);
    Array<float> table(positions * dim), q_norm = random_values<float>(dim), k_norm = random_values<float>(dim);
    for (uint32_t p = 0; p < positions; ++p)
        for (uint32_t i = 0; i < half; ++i) {
            const double angle = p * std::pow(1e4, -2.0 * i / dim);
            table[p * dim + i] = float(std::cos(angle)), table[p * dim + half + i] = float(std::sin(angle));
        }
    Array<uint32_t> position_ids(rows);
    for (uint32_t i = 0; i < rows; ++i) position_ids[i] = i == 4 ? positions - 1 : below(positions);
    const uint32_t items = rows * (heads + kv_heads);
    const uint32_t at_once = 128 / (wide == 1 ? 32 : half / wide);
    emulation::launch((items + at_once - 1) / at_once, 128, 0, heads % 2, [&] {
        kernel(x.get(), position_ids.get(), table.get(), norm ? q_norm.get() : nullptr, 0, heads,
               norm ? k_norm.get() : nullptr, heads * dim, kv_heads, rows, width, half, positions, 1e-6f);
    });
    const std::string what = "rope " + std::to_string(dim);
    x.check_guards(what);
    for (uint32_t r = 0; r < rows; ++r)
        for (uint32_t h = 0; h < heads + 2 * kv_heads; ++h) {
            const size_t start = size_t(r) * width + h * dim;
            if (h >= heads + kv_heads) {
                for (uint32_t i = 0; i < dim; ++i) close(what + " v", i, to_float(x[start + i]), to_float(before[start + i]), 0);
                continue;
            }
            double squares = 0;
            for (uint32_t i = 0; i < dim; ++i) squares += std::pow(to_float(before[start + i]), 2);
            auto value = [&](uint32_t i) {
                const double raw = to_float(before[start + i]);
                return norm ? raw / std::sqrt(squares / dim + 1e-6) * (h < heads ? q_norm : k_norm)[i] : raw;
            };
            for (uint32_t i = 0; i < half; ++i) {
                const double c = table[position_ids[r] * dim + i], s = table[position_ids[r] * dim + half + i];
                const double low = value(i) * c - value(half + i) * s, high = value(half + i) * c + value(i) * s;
                close(what, i, to_float(x[start + i]), low, rounding<T>() * 4);
                close(what, i, to_float(x[start + half + i]), high, rounding<T>() * 4);
            }
        }
}

template <typename T> void check_silu(uint32_t width, void (*kernel)(const T *, T *, uint32_t)) {
    const uint32_t rows = 3;
    Array<T> gate_up = random_values<T>(rows * 2 * width, 12), out(rows * width);
    emulation::launch(rows, 64, 0, false, [&] { kernel(gate_up.get(), out.get(), width); });
    out.check_guards("silu");
    for (uint32_t i = 0; i < rows * width; ++i) {
        const uint32_t row = i / width * 2 * width, column = i % width;
        const double gate = to_float(gate_up[row + column]), up = to_float(gate_up[row + width + column]);
        const double expected = gate / (1 + std::exp(-gate)) * up;
        close("silu", i, to_float(out[i]), expected, rounding<T>() * (std::abs(expected) + 1e-3));
    }
}

static void check_pool(uint32_t width, bool normalize) {
    Array<float> x = random_values<float>(6 * width), out(3 * width);
    const uint32_t parts = normalize ? 1 : (width + 31) / 32;
    const uint32_t rows[] = {5, 0, 1, 2, 2}, begins[] = {0, 1, 4, 5};
    Array<uint32_t> table(5), starts(4);
    std::copy(rows, rows + 5, table.get()), std::copy(begins, begins + 4, starts.get());
    emulation::launch(3 * parts, 32, 0, false, [&] {
        pool_rows(x.get(), table.get(), starts.get(), out.get(), width, parts, normalize);
    });
    out.check_guards("pool");
    for (uint32_t b = 0; b < 3; ++b) {
        std::vector<double> mean(width);
        double squares = 0;
        for (uint32_t c = 0; c < width; ++c) {
            for (uint32_t i = begins[b]; i < begins[b + 1]; ++i) mean[c] += x[rows[i] * width + c];
            mean[c] /= begins[b + 1] - begins[b];
            squares += mean[c] * mean[c];
        }
        for (uint32_t c = 0; c < width; ++c) {
            close("pool", c, out[b * width + c], normalize ? mean[c] / std::sqrt(squares) : mean[c], 1e-6);
        }
    }
}

static void check_bias() {
    Array<float> bias = random_values<float>(37);
    Array<bf16> out = random_values<bf16>(3 * 37), before(out);
    for (uint32_t accumulate = 0; accumulate < 2; ++accumulate) {
        emulation::launch(3, 32, 0, false, [&] { bias_rows_bf16(out.get(), bias.get(), 37, accumulate); });
        out.check_guards("bias");
        for (uint32_t i = 0; i < 3 * 37; ++i) {
            const double once = to_float(from_float<bf16>(bias[i % 37]));
            close("bias", i, to_float(out[i]), accumulate ? once + bias[i % 37] : once, accumulate ? 0.03 : 0);
        }
    }
}

// Sequences that share prefixes, in compact space.
struct Tree {
    std::vector<uint32_t> pages;
    std::vector<Span> spans;
    uint32_t rows = 0;

    Tree(uint32_t sequences, uint32_t max_len) {
        std::map<std::pair<uint32_t, uint32_t>, uint32_t> nodes;
        std::vector<std::vector<uint32_t>> all;
        for (uint32_t s = 0; s < sequences; ++s) {
            std::vector<uint32_t> tokens = all.empty() ? std::vector<uint32_t>() : all[below(uint32_t(all.size()))];
            tokens.resize(std::min<size_t>(tokens.size(), below(max_len + 1)));
            const uint32_t len = 1 + below(max_len);
            while (tokens.size() < len) tokens.push_back(below(1000));
            const uint32_t path = uint32_t(pages.size()), first = rows;
            uint32_t parent = 0xffffffff;
            for (uint32_t token : tokens) {
                auto [node, is_new] = nodes.insert({{parent, token}, rows});
                rows += is_new;
                parent = node->second;
                pages.push_back(parent);
            }
            if (rows > first) spans.push_back({first, rows - first, uint32_t(tokens.size()) - (rows - first), path});
            all.push_back(tokens);
        }
    }
};

struct Case {
    uint32_t heads, kv_heads, dim, window;
    uint32_t queries, shared;
    bool backwards;
};

template <typename T> void check_attention(const std::string &name, const Case &c, const Tree &tree, void (*kernel)(const Attention)) {
    const uint32_t group = c.heads / c.kv_heads, width = (c.heads + 2 * c.kv_heads) * c.dim, out_width = c.heads * c.dim;
    // A row that no page names, of NaN.
    Array<T> qkv = random_values<T>(size_t(tree.rows + 1) * width), out(size_t(tree.rows) * out_width);
    for (uint32_t i = 0; i < width; ++i) qkv[size_t(tree.rows) * width + i] = from_float<T>(NAN);
    std::vector<Tile> tiles;
    for (uint32_t s = 0; s < tree.spans.size(); ++s)
        for (uint32_t t = 0; t * c.queries < tree.spans[s].len * group; ++t) tiles.push_back({s, t});
    std::shuffle(tiles.begin(), tiles.end(), generator);
    // Reads beyond the end find a page that is not there.
    std::vector<uint32_t> pages(tree.pages);
    pages.resize(pages.size() + 64, 0x7fffffff);
    const float scale = 1.0f / std::sqrt(float(c.dim));
    const Attention a = {qkv.get(), qkv.get() + c.heads * c.dim, qkv.get() + (c.heads + c.kv_heads) * c.dim, out.get(),
                         pages.data(), tree.spans.data(), tiles.data(), width, width, out_width, c.kv_heads, group, c.dim,
                         group == 1 ? 0 : uint32_t(((1ull << 32) + group - 1) / group), c.window, scale * 1.44269504f};
    emulation::launch(uint32_t(tiles.size()) * c.kv_heads, 128, c.shared, c.backwards, [&] { kernel(a); });
    out.check_guards(name);
    for (const Span &span : tree.spans)
        for (uint32_t i = 0; i < span.len; ++i) {
            const uint32_t position = span.depth + i, row = span.row + i;
            const uint32_t first = c.window && position >= c.window ? position - c.window + 1 : 0;
            for (uint32_t h = 0; h < c.heads; ++h) {
                auto q = [&](uint32_t d) { return double(to_float(qkv[size_t(row) * width + h * c.dim + d])); };
                auto kv = [&](uint32_t p, uint32_t which, uint32_t d) {
                    const uint32_t column = (c.heads + which * c.kv_heads + h / group) * c.dim + d;
                    return double(to_float(qkv[size_t(tree.pages[span.path + p]) * width + column]));
                };
                std::vector<double> weights, mean(c.dim);
                double total = 0, largest = -INFINITY;
                for (uint32_t p = first; p <= position; ++p) {
                    double score = 0;
                    for (uint32_t d = 0; d < c.dim; ++d) score += q(d) * kv(p, 0, d);
                    weights.push_back(score * scale);
                    largest = std::max(largest, weights.back());
                }
                for (double &w : weights) total += w = std::exp(w - largest);
                for (uint32_t p = first; p <= position; ++p)
                    for (uint32_t d = 0; d < c.dim; ++d) mean[d] += weights[p - first] / total * kv(p, 1, d);
                for (uint32_t d = 0; d < c.dim; ++d) {
                    const double found = to_float(out[size_t(row) * out_width + h * c.dim + d]);
                    close(name, size_t(row) * out_width + h * c.dim + d, found, mean[d], sizeof(T) == 4 ? 1e-5 : 2e-2);
                }
            }
        }
}

template <typename T, int DIM, int M> void check_flash(const std::string &name, void (*kernel)(const Attention)) {
    typedef FlashTile<T, DIM, M> Flash;
    const uint32_t heads[][2] = {{1, 1}, {4, 2}, {7, 1}, {2, 2}}, windows[] = {0, 1, 5, 64, 70}, lengths[] = {3, 20, 90, 150};
    for (int i = 0; i < 8; ++i) {
        const uint32_t *h = heads[i % 4];
        const Tree tree(4, lengths[(i / 2) % 4]);
        const Case c = {h[0], h[1], DIM, windows[i % 5], Flash::QUERIES, Flash::SHARED_BYTES, i % 2 == 1};
        check_attention<T>(name, c, tree, kernel);
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
    const Span span = {keys - 1, 1, keys - 1, 0};
    const Tile tile = {0, 0};
    const Attention a = {qkv.get(), qkv.get() + dim, qkv.get() + 2 * dim, out.get(), pages.data(), &span, &tile, 3 * dim, 3 * dim, dim,
                         1, 1, dim, 0, 0, 0.125f * 1.44269504f};
    emulation::launch(1, 128, FlashTile<f16, 64, 1>::SHARED_BYTES, false, [&] { flash_attention_f16_64_1(a); });
    for (uint32_t d = 0; d < dim; ++d) close("drift", d, to_float(out[size_t(keys - 1) * dim + d]), 0, 1e-5);
}

template <typename T> void check_plain(const std::string &name, void (*kernel)(const Attention)) {
    const uint32_t dims[] = {1, 5, 20, 64, 80, 128}, windows[] = {0, 1, 7, 40};
    for (int i = 0; i < 12; ++i) {
        const Tree tree(4, 70);
        const uint32_t dim = dims[i % 6];
        // The kernel takes its arguments' type from its own namespace's copy of the header, which is the same.
        check_attention<T>(name, {3 * (1 + i % 2u), 3, dim, windows[i % 4], plain::QUERIES, 4 * 2 * dim * 4, i % 2 == 1}, tree, kernel);
    }
    printf("ok %s\n", name.c_str());
}

int main() {
    for (uint32_t width : {1, 3, 40, 200}) {
        check_gather<Unit16>(width, gather_rows_16);
        check_gather<uint32_t>(width, gather_rows_4);
        check_gather<uint16_t>(width, gather_rows_2);
    }
    for (uint32_t width : {4, 100}) {
        check_embed<float>(width, embed_f32_1), check_embed<float>(width, embed_f32_4);
        check_embed<bf16>(width, embed_bf16_1), check_embed<bf16>(width, embed_bf16_4);
        check_embed<f16>(width, embed_f16_1), check_embed<f16>(width, embed_f16_4);
        check_norm<float>(width, true, add_rms_norm_f32_4), check_norm<float>(width + 1, false, add_rms_norm_f32_1);
        check_norm<bf16>(width, true, add_rms_norm_bf16_4), check_norm<bf16>(width + 1, false, add_rms_norm_bf16_1);
        check_norm<f16>(width, false, add_rms_norm_f16_4), check_norm<f16>(width + 1, true, add_rms_norm_f16_1);
        check_pool(width, false), check_pool(width, true);
    }
    check_norm<bf16>(1024, true, add_rms_norm_bf16_4);
    for (int norm = 0; norm < 2; ++norm) {
        check_rope<bf16>(128, 4, 2, norm, 8, qk_norm_rope_bf16_8), check_rope<bf16>(80, 3, 1, norm, 1, qk_norm_rope_bf16_1);
        check_rope<bf16>(16, 3, 2, norm, 8, qk_norm_rope_bf16_8), check_rope<f16>(64, 7, 1, norm, 8, qk_norm_rope_f16_8);
        check_rope<f16>(6, 1, 1, norm, 1, qk_norm_rope_f16_1), check_rope<f16>(512, 1, 1, norm, 8, qk_norm_rope_f16_8);
        check_rope<float>(256, 2, 1, norm, 4, qk_norm_rope_f32_4), check_rope<float>(8, 2, 1, norm, 4, qk_norm_rope_f32_4);
        check_rope<float>(2, 2, 1, norm, 1, qk_norm_rope_f32_1), check_rope<float>(300, 2, 1, norm, 1, qk_norm_rope_f32_1);
    }
    check_silu<float>(37, silu_mul_f32_1), check_silu<float>(40, silu_mul_f32_4);
    check_silu<bf16>(37, silu_mul_bf16_1), check_silu<bf16>(600, silu_mul_bf16_8);
    check_silu<f16>(37, silu_mul_f16_1), check_silu<f16>(40, silu_mul_f16_8);
    check_bias();
    printf("ok rows, norm, rope, activation, pooling\n");
    check_plain<float>("plain f32", plain::plain_attention_f32);
    check_plain<bf16>("plain bf16", plain::plain_attention_bf16);
    check_plain<f16>("plain f16", plain::plain_attention_f16);
    check_flash<bf16, 64, 1>("flash bf16 64 x 1", flash_attention_bf16_64_1);
    check_flash<bf16, 64, 2>("flash bf16 64 x 2", flash_attention_bf16_64_2);
    check_flash<f16, 64, 1>("flash f16 64 x 1", flash_attention_f16_64_1);
    check_drift();
    check_flash<f16, 64, 2>("flash f16 64 x 2", flash_attention_f16_64_2);
    check_flash<bf16, 128, 1>("flash bf16 128 x 1", flash_attention_bf16_128_1);
    check_flash<bf16, 128, 2>("flash bf16 128 x 2", flash_attention_bf16_128_2);
    check_flash<f16, 128, 1>("flash f16 128 x 1", flash_attention_f16_128_1);
    check_flash<f16, 128, 2>("flash f16 128 x 2", flash_attention_f16_128_2);
    printf("all agree; the largest error is %.2f of its tolerance\n", worst);
}
