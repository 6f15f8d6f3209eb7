// Checks of the row-wise kernels and of pooling.
#pragma once
#include "../activation.cu"
#include "../norm.cu"
#include "../rope.cu"
#include "../rows.cu"
#include "support.h"

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
void check_embed(uint32_t width, void (*kernel)(const T *, const uint32_t *, float *, uint32_t, uint32_t, uint32_t)) {
    Array<T> table = random_values<T>(9 * width);
    Array<uint32_t> ids(4);
    ids[0] = 8, ids[1] = 0, ids[2] = 9, ids[3] = 3;
    Array<float> out(4 * width);
    for (uint32_t accumulate = 0; accumulate < 2; ++accumulate) {
        emulation::launch(4, 64, 0, false, [&] { kernel(table.get(), ids.get(), out.get(), 9, width, accumulate); });
        out.check_guards("embed");
        for (uint32_t i = 0; i < 4 * width; ++i) {
            if (i / width == 2) {
                if (out[i] == out[i]) close("embed outside", i, 0, 1, 0);
            } else {
                close("embed", i, out[i], (1 + accumulate) * to_float(table[ids[i / width] * width + i % width]), 0);
            }
        }
    }
}

template <typename T> void check_convert(uint32_t width, void (*kernel)(const float *, T *, uint32_t)) {
    Array<float> x = random_values<float>(3 * width);
    Array<T> out(3 * width);
    emulation::launch(3, 64, 0, false, [&] { kernel(x.get(), out.get(), width); });
    out.check_guards("convert");
    for (uint32_t i = 0; i < 3 * width; ++i) close("convert", i, to_float(out[i]), to_float(from_float<T>(x[i])), 0);
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

static void check_norm_add(uint32_t width, void (*kernel)(const float *, const float *, float, float *, uint32_t)) {
    const uint32_t rows = 3;
    Array<float> x = random_values<float>(rows * width), weight = random_values<float>(width);
    Array<float> out = random_values<float>(rows * width), before(out);
    const std::string what = "norm add " + std::to_string(width);
    emulation::launch(rows, 128, 0, width % 2, [&] { kernel(x.get(), weight.get(), 1e-6f, out.get(), width); });
    out.check_guards(what);
    for (uint32_t i = 0; i < rows * width; ++i) {
        double squares = 0;
        for (uint32_t j = 0; j < width; ++j) squares += double(x[i / width * width + j]) * x[i / width * width + j];
        const double normed = x[i] / std::sqrt(squares / width + 1e-6) * weight[i % width];
        close(what, i, out[i], before[i] + normed, 4e-6 * (1 + std::abs(normed)));
    }
}

static void check_scale(uint32_t width, void (*kernel)(float *, float, uint32_t)) {
    Array<float> x = random_values<float>(3 * width), before(x);
    emulation::launch(3, 64, 0, false, [&] { kernel(x.get(), 27.5f, width); });
    x.check_guards("scale");
    for (uint32_t i = 0; i < 3 * width; ++i) close("scale", i, x[i], before[i] * 27.5f, 0);
}

template <typename T>
void check_layer_norm(uint32_t width, void (*kernel)(const float *, const float *, const float *, float, T *, uint32_t)) {
    const uint32_t rows = 3;
    // Means far from zero: a variance by the mean of the squares would lose it.
    Array<float> x = random_values<float>(rows * width), weight = random_values<float>(width), bias = random_values<float>(width);
    for (uint32_t i = 0; i < rows * width; ++i) x[i] += float(i / width) * 100;
    Array<T> out(rows * width);
    Array<float> before(x);
    const std::string what = "layer norm " + std::to_string(width);
    // Then in place, where the types allow it.
    for (int in_place = 0; in_place < (std::is_same<T, float>::value ? 2 : 1); ++in_place) {
        T *to = in_place ? reinterpret_cast<T *>(x.get()) : out.get();
        emulation::launch(rows, 128, 0, width % 2, [&] { kernel(x.get(), weight.get(), bias.get(), 1e-5f, to, width); });
        out.check_guards(what), x.check_guards(what);
        for (uint32_t i = 0; i < rows * width; ++i) {
            const float *row = before.get() + i / width * width;
            double mean = 0, variance = 0;
            for (uint32_t j = 0; j < width; ++j) mean += double(row[j]) / width;
            for (uint32_t j = 0; j < width; ++j) variance += (row[j] - mean) * (row[j] - mean) / width;
            const double expected = (before[i] - mean) / std::sqrt(variance + 1e-5) * weight[i % width] + bias[i % width];
            // Values near 200 have steps of 1.5e-5.
            close(what, i, to_float(to[i]), expected, rounding<T>() * (std::abs(expected) + 1e-3) + 1e-4);
        }
    }
}

// Columns between `rest` others, in place.
template <typename T>
void check_layer_norm_columns(uint32_t width, uint32_t rest, void (*kernel)(T *, const float *, const float *, float, uint32_t, uint32_t)) {
    const uint32_t rows = 3, stride = width + 2 * rest;
    Array<T> x = random_values<T>(rows * stride);
    for (uint32_t i = 0; i < rows * stride; ++i) x[i] = from_float<T>(to_float(x[i]) + float(i / stride) * 4);
    Array<T> before(x);
    Array<float> weight = random_values<float>(width), bias = random_values<float>(width);
    emulation::launch(rows, 128, 0, width % 2, [&] { kernel(x.get() + rest, weight.get(), bias.get(), 1e-5f, width, stride); });
    const std::string what = "layer norm of columns " + std::to_string(width);
    x.check_guards(what);
    for (uint32_t i = 0; i < rows * stride; ++i) {
        const uint32_t column = i % stride - rest;
        if (i % stride < rest || column >= width) {
            close(what + " others", i, to_float(x[i]), to_float(before[i]), 0);
            continue;
        }
        double mean = 0, variance = 0;
        for (uint32_t j = 0; j < width; ++j) mean += double(to_float(before[i - column + j])) / width;
        for (uint32_t j = 0; j < width; ++j) variance += std::pow(to_float(before[i - column + j]) - mean, 2) / width;
        const double expected = (to_float(before[i]) - mean) / std::sqrt(variance + 1e-5) * weight[column] + bias[column];
        close(what, i, to_float(x[i]), expected, rounding<T>() * (std::abs(expected) + 1e-3) + 1e-5);
    }
}

template <typename T> using RopeKernel = void (*)(T *, const uint32_t *, const float *, const float *, uint32_t, uint32_t,
                                                  const float *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, float);

// `wide` is the number of values that the kernel reads at once.
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

// The functions of activation.cu in double precision.
static double activated_exactly(uint32_t kind, double x) {
    switch (kind) {
    case GELU: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case GELU_TANH: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case RELU: return std::max(x, 0.0);
    default: return x / (1 + std::exp(-x));
    }
}

template <typename T> void check_activate_mul(uint32_t width, void (*kernel)(const T *, T *, uint32_t, uint32_t)) {
    const uint32_t rows = 3;
    for (uint32_t kind : {GELU, GELU_TANH, RELU, SILU}) {
        Array<T> gate_up = random_values<T>(rows * 2 * width, 12), out(rows * width);
        emulation::launch(rows, 64, 0, false, [&] { kernel(gate_up.get(), out.get(), width, kind); });
        out.check_guards("activate_mul");
        for (uint32_t i = 0; i < rows * width; ++i) {
            const uint32_t row = i / width * 2 * width, column = i % width;
            const double gate = to_float(gate_up[row + column]), up = to_float(gate_up[row + width + column]);
            const double expected = activated_exactly(kind, gate) * up;
            close("activate_mul " + std::to_string(kind), i, to_float(out[i]), expected,
                  rounding<T>() * (std::abs(expected) + 1e-3) + 1e-6 * std::abs(up));
        }
    }
}

template <typename T>
void check_activate(uint32_t width, void (*kernel)(const T *, const float *, T *, uint32_t, uint32_t)) {
    const uint32_t rows = 3;
    for (uint32_t kind : {GELU, GELU_TANH, RELU, SILU})
        for (int biased = 0; biased < 2; ++biased) {
            Array<T> x = random_values<T>(rows * width, 12), before(x);
            Array<float> bias = random_values<float>(width);
            // In place.
            emulation::launch(rows, 64, 0, false, [&] { kernel(x.get(), biased ? bias.get() : nullptr, x.get(), width, kind); });
            x.check_guards("activate");
            for (uint32_t i = 0; i < rows * width; ++i) {
                const double expected = activated_exactly(kind, to_float(before[i]) + (biased ? double(bias[i % width]) : 0.0));
                close("activate " + std::to_string(kind), i, to_float(x[i]), expected, rounding<T>() * (std::abs(expected) + 1e-3));
            }
        }
}

static void check_pool(uint32_t width, uint32_t kind, bool normalize) {
    Array<float> x = random_values<float>(6 * width), out(4 * width);
    const uint32_t parts = normalize ? 1 : (width + 31) / 32;
    const uint32_t rows[] = {5, 0, 1, 2, 2}, begins[] = {0, 1, 4, 5, 5};
    Array<uint32_t> table(5), starts(5);
    std::copy(rows, rows + 5, table.get()), std::copy(begins, begins + 5, starts.get());
    // NaN is never hidden.
    if (!normalize) x[2 * width] = NAN;
    emulation::launch(4 * parts, 32, 0, false, [&] {
        pool_rows(x.get(), table.get(), starts.get(), out.get(), width, parts, kind, normalize);
    });
    out.check_guards("pool");
    for (uint32_t b = 0; b < 4; ++b) {
        std::vector<double> expected(width);
        const double count = begins[b + 1] - begins[b];
        const double divisor = kind == MEAN_SQRT_LEN ? std::sqrt(count) : kind == WEIGHTED_MEAN ? count * (count + 1) / 2 : count;
        double squares = 0;
        for (uint32_t c = 0; c < width; ++c) {
            double sum = 0, largest = -INFINITY;
            for (uint32_t i = begins[b]; i < begins[b + 1]; ++i) {
                const double value = x[rows[i] * width + c];
                sum += kind == WEIGHTED_MEAN ? value * (i + 1 - begins[b]) : value;
                largest = std::max(value, largest);
            }
            expected[c] = count == 0 ? 0.0 : kind == LARGEST ? largest : sum / divisor;
            squares += expected[c] * expected[c];
        }
        for (uint32_t c = 0; c < width; ++c) {
            const float found = out[b * width + c];
            if (!normalize && c == 0 && b > 0 && count > 0) {
                close("pool hides NaN", c, found == found, 0, 0);
            } else {
                close("pool " + std::to_string(kind), c, found, normalize && count > 0 ? expected[c] / std::sqrt(squares) : expected[c], 1e-6);
            }
        }
    }
}

// From the columns of all groups, and from the row's own columns alone.
template <typename T>
void check_own_columns(uint32_t group, void (*kernel)(const float *, const uint32_t *, T *, uint32_t, uint32_t, uint32_t)) {
    const uint32_t groups = 5, out_width = groups * group, own[] = {3, 0, 4, groups, 1};
    for (const uint32_t width : {out_width, group}) {
        Array<float> x = random_values<float>(5 * width);
        Array<uint32_t> index(5);
        std::copy(own, own + 5, index.get());
        Array<T> out(5 * out_width);
        emulation::launch(5, 32, 0, group % 2, [&] { kernel(x.get(), index.get(), out.get(), width, group, out_width); });
        out.check_guards("own columns");
        for (uint32_t i = 0; i < 5 * out_width; ++i) {
            const uint32_t row = i / out_width, column = i % out_width;
            const float found = to_float(out[i]);
            if (own[row] == groups) {
                close("own columns outside", i, found != found, 1, 0);
                continue;
            }
            const float value = column / group == own[row] ? x[row * width + column % width] : 0;
            close("own columns", i, found, to_float(from_float<T>(value)), 0);
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
