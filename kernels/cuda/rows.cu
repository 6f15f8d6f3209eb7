// Rows by index.
#include "common.cuh"

// out[i] = src[index[i]], rows of `width` units. A warp copies a row, four units per lane at a time so that their loads
// overlap. An index of `src_rows` or more gives a row whose bits are all ones, which is NaN in every float type: the
// error shows in the output, and nothing is read out of bounds.
template <typename Unit>
DEVICE void gather(const Unit *__restrict__ src, const uint32_t *__restrict__ index, Unit *__restrict__ out,
                   uint32_t rows, uint32_t src_rows, uint32_t width) {
    constexpr int UNROLL = 4;
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const uint32_t from = index[row];
    const bool inside = from < src_rows;
    const Unit *source = src + size_t(inside ? from : 0) * width;
    Unit *target = out + size_t(row) * width;
    for (uint32_t first = lane; first < width; first += 32 * UNROLL) {
        Unit units[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const uint32_t column = first + 32 * i;
            if (column < width && inside) {
                units[i] = source[column];
            } else {
                memset(&units[i], 0xff, sizeof(Unit));
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const uint32_t column = first + 32 * i;
            if (column < width) target[column] = units[i];
        }
    }
}

// Grid: rows / (blockDim.x / 32), rounded up. Widths count units of 16, 4 and 2 bytes, to which rows are aligned.
#define GATHER_ROWS(BYTES, UNIT)                                                                                       \
    KERNEL gather_rows_##BYTES(const UNIT *src, const uint32_t *index, UNIT *out, uint32_t rows, uint32_t src_rows,    \
                               uint32_t width) {                                                                       \
        gather(src, index, out, rows, src_rows, width);                                                                \
    }
typedef Vector<uint32_t, 4> Unit16;
GATHER_ROWS(16, Unit16)
GATHER_ROWS(4, uint32_t)
GATHER_ROWS(2, uint16_t)

// out[i] = table[ids[i]] as f32, or out[i] += table[ids[i]]; NaN where the id is `vocab` or more. Grid: rows.
template <typename T, int N>
DEVICE void embed(const T *__restrict__ table, const uint32_t *__restrict__ ids, float *__restrict__ out,
                  uint32_t vocab, uint32_t width, uint32_t accumulate) {
    const uint32_t id = ids[blockIdx.x];
    const Vector<T, N> *source = reinterpret_cast<const Vector<T, N> *>(table + size_t(id < vocab ? id : 0) * width);
    Vector<float, N> *target = reinterpret_cast<Vector<float, N> *>(out + size_t(blockIdx.x) * width);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<T, N> from = source[i];
        Vector<float, N> to = {};
        if (accumulate) to = target[i];
#pragma unroll
        for (int j = 0; j < N; ++j) to.value[j] = id < vocab ? to.value[j] + to_float(from.value[j]) : NAN;
        target[i] = to;
    }
}

// `_4`: the width is a multiple of 4.
#define EMBED(NAME, T, N)                                                                                              \
    KERNEL embed_##NAME##_##N(const T *table, const uint32_t *ids, float *out, uint32_t vocab, uint32_t width,         \
                              uint32_t accumulate) {                                                                   \
        embed<T, N>(table, ids, out, vocab, width, accumulate);                                                        \
    }
EMBED(f32, float, 1)
EMBED(f32, float, 4)
EMBED(bf16, bf16, 1)
EMBED(bf16, bf16, 4)
EMBED(f16, f16, 1)
EMBED(f16, f16, 4)

// out = x, rounded to the type of `out`. Grid: rows.
template <typename T, int N>
DEVICE void convert(const float *__restrict__ x, T *__restrict__ out, uint32_t width) {
    const Vector<float, N> *source = reinterpret_cast<const Vector<float, N> *>(x + size_t(blockIdx.x) * width);
    Vector<T, N> *target = reinterpret_cast<Vector<T, N> *>(out + size_t(blockIdx.x) * width);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        const Vector<float, N> from = source[i];
        Vector<T, N> to;
#pragma unroll
        for (int j = 0; j < N; ++j) to.value[j] = from_float<T>(from.value[j]);
        target[i] = to;
    }
}

// `_4`: the width is a multiple of 4.
#define CONVERT(NAME, T, N)                                                                                            \
    KERNEL convert_##NAME##_##N(const float *x, T *out, uint32_t width) { convert<T, N>(x, out, width); }
CONVERT(f32, float, 1)
CONVERT(f32, float, 4)
CONVERT(bf16, bf16, 1)
CONVERT(bf16, bf16, 4)
CONVERT(f16, f16, 1)
CONVERT(f16, f16, 4)

// Prepares an output for a product with beta = 1: out = bias, or out += bias, row by row. Grid: rows.
template <typename T>
DEVICE void bias_rows(T *__restrict__ out, const float *__restrict__ bias, uint32_t width, uint32_t accumulate) {
    T *row = out + size_t(blockIdx.x) * width;
    for (uint32_t i = threadIdx.x; i < width; i += blockDim.x) {
        row[i] = from_float<T>(accumulate ? to_float(row[i]) + bias[i] : bias[i]);
    }
}

#define BIAS_ROWS(NAME, T)                                                                                             \
    KERNEL bias_rows_##NAME(T *out, const float *bias, uint32_t width, uint32_t accumulate) {                          \
        bias_rows<T>(out, bias, width, accumulate);                                                                    \
    }
BIAS_ROWS(f32, float)
BIAS_ROWS(bf16, bf16)
BIAS_ROWS(f16, f16)

// out[i][c] = x[i][c % width] in the own[i]-th group of `group` columns, and 0 elsewhere: each row keeps the columns of its own
// group, and `x` holds either the columns of all groups or only the row's own. A group out of range gives a row of NaN. Grid: rows.
template <typename T>
DEVICE void own_columns(const float *__restrict__ x, const uint32_t *__restrict__ own, T *__restrict__ out, uint32_t width,
                        uint32_t group, uint32_t out_width) {
    const uint32_t index = own[blockIdx.x];
    const bool inside = index < out_width / group;
    const uint32_t start = inside ? index * group : 0;
    const float *columns = x + size_t(blockIdx.x) * width + start % width;
    T *row = out + size_t(blockIdx.x) * out_width;
    for (uint32_t i = threadIdx.x; i < out_width; i += blockDim.x) {
        const bool is_own = i >= start && i - start < group;
        row[i] = from_float<T>(!inside ? NAN : is_own ? columns[i - start] : 0.0f);
    }
}

#define OWN_COLUMNS(NAME, T)                                                                                           \
    KERNEL own_columns_##NAME(const float *x, const uint32_t *own, T *out, uint32_t width, uint32_t group,             \
                              uint32_t out_width) {                                                                    \
        own_columns<T>(x, own, out, width, group, out_width);                                                          \
    }
OWN_COLUMNS(f32, float)
OWN_COLUMNS(bf16, bf16)
OWN_COLUMNS(f16, f16)

// Pooling functions, numbered as in the launcher.
enum Pooling : uint32_t { MEAN, LARGEST, MEAN_SQRT_LEN, WEIGHTED_MEAN };

// One column of the rows of an output, in their order: the mean, the largest value, the sum over the root of their number, or
// the mean with weights 1, 2, 3, ... The result for no rows is 0. A single row is returned unchanged; NaN stays.
DEVICE float pooled(const float *__restrict__ x, const uint32_t *__restrict__ rows, uint32_t count, uint32_t width,
                    uint32_t column, uint32_t kind) {
    if (count == 0) return 0.0f;
    float result = x[size_t(rows[0]) * width + column];
    if (count == 1) return result;
    for (uint32_t i = 1; i < count; ++i) {
        const float value = x[size_t(rows[i]) * width + column];
        if (kind == LARGEST) {
            result = result != result || value <= result ? result : value;
        } else {
            result += kind == WEIGHTED_MEAN ? value * float(i + 1) : value;
        }
    }
    const float rows_count = float(count);
    switch (kind) {
    case LARGEST: return result;
    case MEAN_SQRT_LEN: return result / sqrtf(rows_count);
    case WEIGHTED_MEAN: return result / (0.5f * rows_count * (rows_count + 1.0f));
    default: return result / rows_count;
    }
}

// out[b] = pool(x[table[i]] for i in starts[b] .. starts[b + 1]); then divided by its length if `normalize` is set, where a
// zero vector stays zero. `parts` blocks share the columns of an output; with `normalize` there is one, since the length needs
// all columns. Grid: outputs * parts.
KERNEL pool_rows(const float *__restrict__ x, const uint32_t *__restrict__ table, const uint32_t *__restrict__ starts,
                 float *__restrict__ out, uint32_t width, uint32_t parts, uint32_t kind, uint32_t normalize) {
    const uint32_t output = blockIdx.x / parts, part = blockIdx.x % parts;
    const uint32_t begin = starts[output], count = starts[output + 1] - begin;
    float *row = out + size_t(output) * width;
    float squares = 0.0f;
    for (uint32_t column = part * blockDim.x + threadIdx.x; column < width; column += parts * blockDim.x) {
        const float value = pooled(x, table + begin, count, width, column, kind);
        row[column] = value;
        squares += value * value;
    }
    if (!normalize) return;
    const float length = sqrtf(block_sum(squares));
    if (length == 0.0f) return;
    for (uint32_t column = threadIdx.x; column < width; column += blockDim.x) row[column] /= length;
}

// x *= factor. Grid: rows.
template <int N> DEVICE void scale_rows(float *x, float factor, uint32_t width) {
    Vector<float, N> *row = reinterpret_cast<Vector<float, N> *>(x + size_t(blockIdx.x) * width);
    for (uint32_t i = threadIdx.x; i < width / N; i += blockDim.x) {
        Vector<float, N> values = row[i];
#pragma unroll
        for (int j = 0; j < N; ++j) values.value[j] *= factor;
        row[i] = values;
    }
}

KERNEL scale_rows_1(float *x, float factor, uint32_t width) { scale_rows<1>(x, factor, width); }
// The width is a multiple of 4.
KERNEL scale_rows_4(float *x, float factor, uint32_t width) { scale_rows<4>(x, factor, width); }
