// prefold's kernels by name, compiled from the sources that nvcc compiles, a coroutine for each thread.
#include "../activation.cu"
#include "../attention.cu"
#include "../experts.cu"
#include "../norm.cu"
#include "../rope.cu"
#include "../rows.cu"
namespace plain {
#include "../attention_plain.cu"
}

namespace simulated {
static Attention on_device(Attention a);
}
#include "arguments.h"

namespace simulated {

static Attention on_device(Attention a) {
    a.q = on_device(a.q), a.k = on_device(a.k), a.v = on_device(a.v), a.out = on_device(a.out);
    a.pages = on_device(a.pages), a.spans = on_device(a.spans), a.tiles = on_device(a.tiles), a.bias = on_device(a.bias);
    a.position_keys = on_device(a.position_keys), a.position_queries = on_device(a.position_queries);
    a.distance_rows = on_device(a.distance_rows);
    return a;
}

static void in_coroutines(const std::function<void()> &body, const Grid &grid) {
    emulation::launch(grid.blocks, grid.threads, grid.shared_bytes, random_below(2) == 1, body);
}

#define OWN(NAME) make_kernel(#NAME, NAME, 1024, in_coroutines)
#define BOUNDED(NAME, FUNCTION) make_kernel(#NAME, FUNCTION, 128, in_coroutines)
#define OF_TYPE(T, WIDE)                                                                                               \
    OWN(embed_##T##_1), OWN(embed_##T##_4), OWN(convert_##T##_1), OWN(convert_##T##_4), OWN(add_rms_norm_##T##_1),     \
        OWN(add_rms_norm_##T##_4), OWN(layer_norm_##T##_1), OWN(layer_norm_##T##_4), OWN(qk_norm_rope_##T##_1),        \
        OWN(qk_norm_rope_##T##_##WIDE), OWN(activate_mul_##T##_1), OWN(activate_mul_##T##_##WIDE),                     \
        OWN(activate_##T##_1), OWN(activate_##T##_4), OWN(bias_rows_##T), OWN(own_columns_##T),                        \
        OWN(layer_norm_columns_##T##_1), OWN(layer_norm_columns_##T##_4),                                              \
        BOUNDED(plain_attention_##T, plain::plain_attention_##T)
#define NAMED_BOUNDED(NAME) BOUNDED(NAME, NAME)
#define FLASH(T, DIM, M, BLOCKS) NAMED_BOUNDED(flash_attention_##T##_##DIM##_##M),
#define FLASH_BIAS(T, DIM, M, BLOCKS) NAMED_BOUNDED(flash_attention_bias_##T##_##DIM##_##M),
#define FLASH_POSITIONS(T, DIM, M, BLOCKS) NAMED_BOUNDED(flash_attention_positions_##T##_##DIM##_##M),
#define FLASH_OF_TYPE(T)                                                                                               \
    FLASH_TILES(FLASH, T) FLASH_BIAS_TILES(FLASH_BIAS, T) FLASH_POSITIONS_TILES(FLASH_POSITIONS, T)

static std::vector<Kernel> all_kernels() {
    emulation::on_failure = [](const char *what) { fail("%s: %s", running ? running : "", what); };
    return {OWN(gather_rows_16), OWN(gather_rows_4),   OWN(gather_rows_2), OWN(pool_rows),    OWN(rms_norm_add_1),
            OWN(rms_norm_add_4), OWN(scale_rows_1),    OWN(scale_rows_4),  OF_TYPE(f32, 4),   OF_TYPE(bf16, 8),
            OF_TYPE(f16, 8),     FLASH_OF_TYPE(bf16)   FLASH_OF_TYPE(f16)
            OWN(route_rows),     OWN(scatter_add_rows_1), OWN(scatter_add_rows_4)};
}

const Kernel *find_kernel(const std::string &name) {
    static const std::vector<Kernel> &kernels = *new std::vector<Kernel>(all_kernels());
    for (const Kernel &kernel : kernels) {
        if (name == kernel.name) return &kernel;
    }
    return nullptr;
}

} // namespace simulated
