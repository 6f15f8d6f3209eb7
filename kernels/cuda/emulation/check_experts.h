// Checks of the kernels for mixtures of experts.
#pragma once
#include "../experts.cu"
#include "support.h"

// Scores with few different values, so that many are equal. 200 rows are more than a block of 64 threads takes at a time.
static void check_route(uint32_t rows, uint32_t experts, uint32_t top, uint32_t threads, bool nan) {
    Array<float> scores(rows * experts), weights(experts * rows);
    Array<uint32_t> listed(experts * rows), counts(experts);
    for (uint32_t i = 0; i < rows * experts; ++i) scores[i] = float(below(7)) - 2.5f;
    const uint32_t broken = nan ? rows / 2 : rows;
    if (nan) scores[broken * experts + below(experts)] = NAN;
    emulation::launch(experts, threads, 0, rows % 2, [&] {
        route_rows(scores.get(), listed.get(), weights.get(), counts.get(), rows, experts, top);
    });
    const std::string what = "route " + std::to_string(rows) + " x " + std::to_string(experts);
    listed.check_guards(what), weights.check_guards(what), counts.check_guards(what);
    std::vector<uint32_t> found(experts), of_row(rows);
    for (uint32_t expert = 0; expert < experts; ++expert) {
        if (counts[expert] > rows) close(what + " count", expert, counts[expert], rows, 0);
        for (uint32_t row = 0; row < rows; ++row) {
            const float *own = scores.get() + row * experts;
            uint32_t &place = found[expert];
            const bool listed_here = place < counts[expert] && listed[expert * rows + place] == row;
            of_row[row] += listed_here;
            if (row == broken) {
                if (listed_here) close(what + " NaN", row, std::isnan(weights[expert * rows + place++]), 1, 0);
                continue;
            }
            uint32_t better = 0;
            double total = 0;
            for (uint32_t i = 0; i < experts; ++i) {
                better += own[i] > own[expert] || (own[i] == own[expert] && i < expert);
                total += std::exp(double(own[i]) - own[expert]);
            }
            close(what + " chosen", row, listed_here, better < top, 0);
            if (listed_here) close(what + " weight", row, weights[expert * rows + place++], 1 / total, 1e-6);
        }
        close(what + " count", expert, counts[expert], found[expert], 0);
    }
    if (nan && !of_row[broken]) close(what + " hides NaN", broken, 0, 1, 0);
}

static void check_scatter_add(uint32_t width, bool indexed,
                              void (*kernel)(const float *, const uint32_t *, const float *, float *, uint32_t, uint32_t)) {
    const uint32_t rows = indexed ? 4 : 6, out_rows = 6, places[] = {5, 0, out_rows, 2};
    Array<float> x = random_values<float>(rows * width), factors = random_values<float>(rows);
    Array<float> out = random_values<float>(out_rows * width), before(out);
    Array<uint32_t> index(4);
    std::copy(places, places + 4, index.get());
    emulation::launch(rows, 64, 0, width % 2, [&] {
        kernel(x.get(), indexed ? index.get() : nullptr, indexed ? factors.get() : nullptr, out.get(), out_rows, width);
    });
    const std::string what = "scatter " + std::to_string(width);
    out.check_guards(what);
    for (uint32_t i = 0; i < out_rows * width; ++i) {
        double expected = before[i];
        for (uint32_t j = 0; j < rows; ++j) {
            if ((indexed ? places[j] : j) == i / width) expected += (indexed ? factors[j] : 1.0) * double(x[j * width + i % width]);
        }
        close(what, i, out[i], expected, 1e-6 * (1 + std::abs(expected)));
    }
}
