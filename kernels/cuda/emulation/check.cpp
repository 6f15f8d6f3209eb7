// Runs every kernel in emulation on random inputs and compares with plain loops in double precision.
//
//     scripts/cuda-emulate.sh
#include "check_attention.h"
#include "check_banks.h"
#include "check_experts.h"
#include "check_rows.h"

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
        check_layer_norm_columns<float>(width, 8, layer_norm_columns_f32_4), check_layer_norm_columns<float>(width, 3, layer_norm_columns_f32_1);
        check_layer_norm_columns<bf16>(width, 8, layer_norm_columns_bf16_4), check_layer_norm_columns<bf16>(width, 3, layer_norm_columns_bf16_1);
        check_layer_norm_columns<f16>(width, 8, layer_norm_columns_f16_4), check_layer_norm_columns<f16>(width, 3, layer_norm_columns_f16_1);
        check_layer_norm<float>(width, layer_norm_f32_4), check_layer_norm<float>(width + 1, layer_norm_f32_1);
        check_layer_norm<bf16>(width, layer_norm_bf16_4), check_layer_norm<bf16>(width + 1, layer_norm_bf16_1);
        check_layer_norm<f16>(width, layer_norm_f16_4), check_layer_norm<f16>(width + 1, layer_norm_f16_1);
        check_convert<float>(width, convert_f32_4), check_convert<float>(width + 1, convert_f32_1);
        check_convert<bf16>(width, convert_bf16_4), check_convert<bf16>(width + 1, convert_bf16_1);
        check_convert<f16>(width, convert_f16_4), check_convert<f16>(width + 1, convert_f16_1);
        check_activate<float>(width, activate_f32_4), check_activate<float>(width + 1, activate_f32_1);
        check_activate<bf16>(width, activate_bf16_4), check_activate<bf16>(width + 1, activate_bf16_1);
        check_activate<f16>(width, activate_f16_4), check_activate<f16>(width + 1, activate_f16_1);
        for (uint32_t kind : {MEAN, LARGEST, MEAN_SQRT_LEN, WEIGHTED_MEAN}) {
            check_pool(width, kind, false), check_pool(width, kind, true);
        }
    }
    check_norm<bf16>(1024, true, add_rms_norm_bf16_4), check_layer_norm<bf16>(1024, layer_norm_bf16_4);
    for (int norm = 0; norm < 2; ++norm) {
        check_rope<bf16>(128, 4, 2, norm, 8, qk_norm_rope_bf16_8), check_rope<bf16>(80, 3, 1, norm, 1, qk_norm_rope_bf16_1);
        check_rope<bf16>(16, 3, 2, norm, 8, qk_norm_rope_bf16_8), check_rope<f16>(64, 7, 1, norm, 8, qk_norm_rope_f16_8);
        check_rope<f16>(6, 1, 1, norm, 1, qk_norm_rope_f16_1), check_rope<f16>(512, 1, 1, norm, 8, qk_norm_rope_f16_8);
        check_rope<float>(256, 2, 1, norm, 4, qk_norm_rope_f32_4), check_rope<float>(8, 2, 1, norm, 4, qk_norm_rope_f32_4);
        check_rope<float>(2, 2, 1, norm, 1, qk_norm_rope_f32_1), check_rope<float>(300, 2, 1, norm, 1, qk_norm_rope_f32_1);
    }
    check_activate_mul<float>(37, activate_mul_f32_1), check_activate_mul<float>(40, activate_mul_f32_4);
    check_activate_mul<bf16>(37, activate_mul_bf16_1), check_activate_mul<bf16>(600, activate_mul_bf16_8);
    check_activate_mul<f16>(37, activate_mul_f16_1), check_activate_mul<f16>(40, activate_mul_f16_8);
    for (uint32_t width : {40u, 600u}) {
        check_norm_add(width, rms_norm_add_4), check_norm_add(width + 1, rms_norm_add_1);
        check_scale(width, scale_rows_4), check_scale(width + 1, scale_rows_1);
    }
    check_bias();
    for (uint32_t group : {1u, 4u, 30u}) {
        check_own_columns<float>(group, own_columns_f32), check_own_columns<bf16>(group, own_columns_bf16);
        check_own_columns<f16>(group, own_columns_f16);
    }
    for (uint32_t rows : {1u, 31u, 64u, 65u, 200u}) {
        for (bool nan : {false, true}) {
            check_route(rows, 8, 2, 64, nan), check_route(rows, 5, 5, 32, nan), check_route(rows, 3, 1, 256, nan);
        }
    }
    for (bool indexed : {false, true}) {
        check_scatter_add(40, indexed, scatter_add_rows_4), check_scatter_add(600, indexed, scatter_add_rows_4);
        check_scatter_add(37, indexed, scatter_add_rows_1);
    }
    printf("ok rows, norm, rope, activation, pooling\n");
    check_plain<float>("plain f32", plain::plain_attention_f32);
    check_plain<bf16>("plain bf16", plain::plain_attention_bf16);
    check_plain<f16>("plain f16", plain::plain_attention_f16);
#define CHECK_FLASH(T, DIM, M, BLOCKS)                                                                                 \
    check_flash<T, DIM, M>("flash " #T " " #DIM " x " #M, false, flash_attention_##T##_##DIM##_##M);
#define CHECK_FLASH_BIAS(T, DIM, M, BLOCKS)                                                                            \
    check_flash<T, DIM, M>("flash " #T " " #DIM " x " #M " with biases", true, flash_attention_bias_##T##_##DIM##_##M);
    FLASH_TILES(CHECK_FLASH, bf16)
    FLASH_TILES(CHECK_FLASH, f16)
    FLASH_BIAS_TILES(CHECK_FLASH_BIAS, bf16)
    FLASH_BIAS_TILES(CHECK_FLASH_BIAS, f16)
    check_drift();
    check_flash_positions<bf16>("flash bf16 64 with positions", flash_attention_positions_bf16_64_1);
    check_flash_positions<f16>("flash f16 64 with positions", flash_attention_positions_f16_64_1);
    check_all_banks();
    printf("ok banks of shared memory\n");
    printf("all agree; the largest error is %.2f of its tolerance\n", worst);
}
