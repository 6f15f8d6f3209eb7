// Bank conflicts of the kernels that use shared memory, on shapes that leave no lane idle.
#pragma once
#include "check_attention.h"
#include "check_experts.h"
#include "check_rows.h"

using emulation::Access;

// Runs a check and prints the accesses of its kernel. Loads by pointer have `load_conflicts`, explained at the call; all other accesses
// have none. Each of `kinds` must occur, and no other.
template <typename Run>
void check_banks(const char *kernel, std::vector<Access> kinds, uint64_t load_conflicts, Run run) {
    emulation::Banks banks;
    emulation::banks = &banks;
    run();
    emulation::banks = nullptr;
    std::map<Access, emulation::Wavefronts> found;
    for (const auto &[site, wavefronts] : banks.sites) {
        found[site.access].accesses += wavefronts.accesses;
        found[site.access].conflicts += wavefronts.conflicts;
    }
    bool passes = found.size() == kinds.size();
    for (Access kind : kinds) {
        const emulation::Wavefronts wavefronts = found[kind];
        passes = passes && wavefronts.accesses > 0 && wavefronts.conflicts == (kind == Access::Load ? load_conflicts : 0);
        printf("  %-34s %-9s %6lu accesses %6lu conflicts\n", kernel, emulation::name_of(kind), wavefronts.accesses, wavefronts.conflicts);
    }
    if (passes) return;
    printf("FAILED banks of %s: %lu conflicts of loads and no others expected; found\n", kernel, load_conflicts);
    for (const auto &[site, wavefronts] : banks.sites) {
        printf("  %s:%d: %s, %lu accesses, %lu conflicts\n", site.line.file, site.line.number, emulation::name_of(site.access),
               wavefronts.accesses, wavefronts.conflicts);
    }
    exit(1);
}

// A sequence with its own pages whose queries see all of it.
static Paths sequence(uint32_t len) {
    Paths paths;
    paths.full = true;
    paths.rows = len;
    paths.spans = {{0, len, 0, 0, len}};
    for (uint32_t row = 0; row < len; ++row) paths.pages.push_back(row);
    return paths;
}

static const std::vector<Access> ALL_KINDS = {Access::Matrices, Access::Copy, Access::Load, Access::Store};

template <typename T, int DIM, int M> void check_flash_banks(const char *name, bool bias, void (*kernel)(const Attention)) {
    typedef FlashTile<T, DIM, M> Flash;
    const Case c = {2, bias ? 2u : 1u, DIM, 0, Flash::QUERIES, Flash::SHARED_BYTES, false, bias};
    check_banks(name, ALL_KINDS, 0, [&] { check_attention<T>(name, c, sequence(128), kernel); });
}

template <typename T> void check_positions_banks(const char *name, void (*kernel)(const Attention)) {
    typedef FlashTile<T, 64, 1> Flash;
    typedef PositionTerms<Flash, T> Terms;
    const uint32_t len = 192, pairs = (len / Flash::QUERIES) * (len / Flash::KEYS);
    const Case c = {1, 1, 64, 0, Flash::QUERIES, Flash::SHARED_BYTES + Terms::SHARED_BYTES, true, false, 3};
    // For each of its 16 * 64 scores a warp reads a product with a position key and one with a position query, 32 at a time. Lanes have
    // eight queries and four keys two apart, whose products are STRIDE + 1 and 2 * STRIDE - 2 values apart: two lanes meet in a bank each
    // time. A STRIDE that avoids this for one of the two is odd, and then pairs cannot be written at once.
    const uint64_t reads = uint64_t(pairs) * Flash::WARPS * 2 * (16 * 64 / 32);
    check_banks(name, ALL_KINDS, reads, [&] { check_attention<T>(name, c, sequence(len), kernel); });
}

template <typename T> void check_plain_banks(const char *name, void (*kernel)(const Attention)) {
    const uint32_t dim = 64;
    const Case c = {2, 2, dim, 0, 64, 4 * 2 * dim * 4, false, false, 3};
    check_banks(name, {Access::Load, Access::Store}, 0, [&] { check_attention<T>(name, c, sequence(64), kernel); });
}

static void check_all_banks() {
#define CHECK_BANKS(T, DIM, M, BLOCKS)                                                                                 \
    check_flash_banks<T, DIM, M>("flash_attention_" #T "_" #DIM "_" #M, false, flash_attention_##T##_##DIM##_##M);
#define CHECK_BIAS_BANKS(T, DIM, M, BLOCKS)                                                                            \
    check_flash_banks<T, DIM, M>("flash_attention_bias_" #T "_" #DIM "_" #M, true, flash_attention_bias_##T##_##DIM##_##M);
    FLASH_TILES(CHECK_BANKS, bf16)
    FLASH_TILES(CHECK_BANKS, f16)
    FLASH_BIAS_TILES(CHECK_BIAS_BANKS, bf16)
    FLASH_BIAS_TILES(CHECK_BIAS_BANKS, f16)
    check_positions_banks<bf16>("flash_attention_positions_bf16_64_1", flash_attention_positions_bf16_64_1);
    check_positions_banks<f16>("flash_attention_positions_f16_64_1", flash_attention_positions_f16_64_1);
    check_plain_banks<float>("plain_attention_f32", plain::plain_attention_f32);
    check_plain_banks<bf16>("plain_attention_bf16", plain::plain_attention_bf16);
    check_plain_banks<f16>("plain_attention_f16", plain::plain_attention_f16);
    // Sums over a block.
    const std::vector<Access> kinds = {Access::Load, Access::Store};
    check_banks("add_rms_norm_bf16_4", kinds, 0, [] { check_norm<bf16>(1024, true, add_rms_norm_bf16_4); });
    check_banks("rms_norm_add_4", kinds, 0, [] { check_norm_add(1024, rms_norm_add_4); });
    check_banks("layer_norm_bf16_4", kinds, 0, [] { check_layer_norm<bf16>(1024, layer_norm_bf16_4); });
    check_banks("pool_rows", kinds, 0, [] { check_pool(1024, MEAN, true); });
    check_banks("route_rows", kinds, 0, [] { check_route(200, 8, 2, 64, false); });
}
