// Code shared by all kernels: element types, vector accesses, reductions, and the tensor core's instructions.
//
// The kernels use only the names in this file. `emulation/device.h` defines the same names on a CPU, with the layouts
// of the PTX manual, so that indices, bounds and barriers are tested without a GPU.
#pragma once

#ifdef PREFOLD_EMULATION
#include "emulation/device.h"
#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;
typedef __half f16;

#define DEVICE __device__ __forceinline__
#define DEVICE_METHOD __device__ __forceinline__
#define KERNEL extern "C" __global__ void
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

DEVICE float to_float(float x) { return x; }
DEVICE float to_float(bf16 x) { return __bfloat162float(x); }
DEVICE float to_float(f16 x) { return __half2float(x); }

template <typename T> DEVICE T from_float(float x);
template <> DEVICE float from_float<float>(float x) { return x; }
template <> DEVICE bf16 from_float<bf16>(float x) { return __float2bfloat16_rn(x); }
template <> DEVICE f16 from_float<f16>(float x) { return __float2half_rn(x); }

// 2^x; 0 for -infinity.
DEVICE float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The address of shared memory as the instructions below take it.
DEVICE uint32_t shared_address(const void *pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

// Shared memory by pointer. The emulation counts what each such access costs.
template <typename T> DEVICE T load_shared(const T *from) { return *from; }
template <typename T> DEVICE void store_shared(T *to, T value) { *to = value; }

// The same number, for the compiler another at each call: what depends on it is computed where it is needed. Before a loop, in which it does not
// change, it would take registers all the time.
DEVICE uint32_t computed_here(uint32_t x) {
    asm volatile("" : "+r"(x));
    return x;
}

// Starts a copy of 16 bytes to shared memory, or of zeros where `valid` is false. Both addresses are multiples of 16.
DEVICE void copy_async_16(uint32_t to, const void *from, bool valid) {
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all copies that this thread has started.
DEVICE void copy_async_wait_all() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// Four 8x8 matrices of 2-byte elements. Lane `8 * i + j` gives the address of row j of matrix i (16 bytes); register i
// gets elements (lane / 4, 2 * (lane % 4) and the next) of matrix i.
DEVICE void load_matrices(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// The same, each matrix transposed.
DEVICE void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// c += a b with a [16, 16], b [16, 8], c [16, 8], in the fragment layouts of mma.m16n8k16.
template <typename T> DEVICE void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
DEVICE void multiply_add<bf16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
DEVICE void multiply_add<f16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif // PREFOLD_EMULATION

// N neighbouring elements, read and written in one access.
template <typename T, int N> struct alignas(sizeof(T) * N) Vector {
    T value[N];
};

// Two values in one register, the first in the low half.
template <typename T> DEVICE uint32_t pack(float low, float high) {
    union {
        Vector<T, 2> values;
        uint32_t word;
    } both;
    both.values.value[0] = from_float<T>(low);
    both.values.value[1] = from_float<T>(high);
    return both.word;
}

DEVICE float warp_sum(float x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffff, x, offset);
    return x;
}

DEVICE float warp_max(float x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, offset));
    return x;
}

// 1 / sqrt(x); NaN where x has overflowed, because a factor of 0 would turn large values into zeros that look like an answer.
DEVICE float inverse_root(float x) { return x <= 3.402823466e38f ? 1.0f / sqrtf(x) : x - x; }

// The sum over a block of at most 1024 threads, whole warps; every thread gets it, and all must call.
DEVICE float block_sum(float x) {
    __shared__ float partial[32];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    x = warp_sum(x);
    __syncthreads(); // Another call may still be reading.
    if (lane == 0) store_shared(&partial[warp], x);
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? load_shared(&partial[lane]) : 0.0f);
}
