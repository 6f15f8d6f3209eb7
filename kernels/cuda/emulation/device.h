// The names of common.cuh on a CPU: every thread of a block is a coroutine, blocks run one after another.
//
// Checks: accesses to shared memory by address are in bounds and aligned; an asynchronous copy writes only when it is
// waited for, so that a missing wait or barrier gives a wrong result in one of the two orders in which threads take turns;
// deadlocks are reported. Fragment layouts follow the PTX manual (section "Matrix fragments for mma.m16n8k16", `ldmatrix`).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "banks.h"
#include "coroutine.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
// Blocks run one after another.
#define __shared__ static
#define DEVICE static inline
#define DEVICE_METHOD inline
#define KERNEL static void
#define DYNAMIC_SHARED(name) unsigned char *name = emulation::block().shared.data()

namespace emulation {

[[noreturn]] inline void end(const char *what) {
    fprintf(stderr, "emulation: %s\n", what);
    exit(1);
}

// Called when the program under test is wrong; does not return.
inline void (*on_failure)(const char *what) = end;

[[noreturn]] inline void fail(const char *what) {
    on_failure(what);
    abort();
}

struct Index {
    uint32_t x = 0, y = 0, z = 0;
};

struct Copy {
    uint32_t to;
    unsigned char bytes[16];
};

// Values that the lanes of a warp exchange in one collective operation.
struct Exchange {
    uint32_t arrived = 0;
    uint32_t words[32][8];
};

// Two slots used in turn: a lane that is two operations ahead knows that all lanes have arrived at the operation between, and
// so have read the first.
struct Warp {
    Exchange exchanges[2];
};

struct Thread {
    Coroutine coroutine;
    Index index;
    uint32_t collectives = 0;
    bool done = false;
    std::vector<Copy> started, committed;
};

struct Block {
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<unsigned char> shared;
    Index index, dim, grid;
    Thread *current = nullptr;
    uint32_t arrived = 0, barriers = 0;
    // Counts events that show progress; used to detect deadlocks.
    uint64_t progress = 0;
};

// Never destroyed: a device's thread may still run when the process ends.
inline Block *const the_block = new Block;

inline Block &block() { return *the_block; }

// Ends the current thread's turn.
inline void yield() { block().current->coroutine.leave(); }

inline uint32_t lane() { return block().current->index.x % 32; }

// Gives up to eight words to the warp and calls `read` once all lanes have given theirs.
template <typename Read> void collective(std::initializer_list<uint32_t> words, Read read) {
    Block &b = block();
    Exchange &exchange = b.warps[b.current->index.x / 32].exchanges[b.current->collectives++ % 2];
    if (exchange.arrived == 32) exchange.arrived = 0;
    std::copy(words.begin(), words.end(), exchange.words[lane()]);
    ++exchange.arrived, ++b.progress;
    if (banks && exchange.arrived == 32) banks->met(b.current->index.x / 32);
    while (exchange.arrived < 32) yield();
    read(exchange);
}

inline unsigned char *shared_bytes(uint32_t address, uint32_t count) {
    if (address % count || address + count > block().shared.size()) fail("shared memory: outside or unaligned");
    return block().shared.data() + address;
}

// Counts the current thread's access to shared memory.
inline void count(Access access, Line line, uintptr_t address, uint32_t bytes) {
    if (banks) banks->access(block().current->index.x / 32, lane(), {access, line}, address, bytes);
}

inline std::function<void()> *kernel;

inline void run_thread() {
    (*kernel)();
    block().current->done = true;
    ++block().progress;
    yield();
}

// Runs a kernel with its arguments bound. `backwards`: threads take turns in the other order.
inline void launch(uint32_t grid, uint32_t threads, uint32_t shared, bool backwards, std::function<void()> body) {
    Block &b = block();
    kernel = &body;
    b.dim.x = threads, b.grid.x = grid;
    b.threads.resize(threads);
    b.shared.resize(shared);
    for (b.index.x = 0; b.index.x < grid; ++b.index.x) {
        b.warps.assign((threads + 31) / 32, Warp());
        std::fill(b.shared.begin(), b.shared.end(), 0xff); // NaN: no kernel may rely on the old content.
        for (uint32_t i = 0; i < threads; ++i) {
            Thread &thread = b.threads[i];
            thread.index.x = i, thread.done = false, thread.collectives = 0;
            thread.started.clear(), thread.committed.clear();
            thread.coroutine.prepare(run_thread);
        }
        for (bool running = true; running;) {
            running = false;
            const uint64_t before = b.progress;
            for (uint32_t i = 0; i < threads; ++i) {
                b.current = &b.threads[backwards ? threads - 1 - i : i];
                if (b.current->done) continue;
                running = true;
                b.current->coroutine.enter();
            }
            if (running && b.progress == before) fail("all threads wait: a barrier or collective is not reached by all");
        }
        if (banks) banks->block_is_done();
    }
}

} // namespace emulation

#define threadIdx (emulation::block().current->index)
#define blockIdx (emulation::block().index)
#define blockDim (emulation::block().dim)
#define gridDim (emulation::block().grid)

static inline void __syncthreads() {
    emulation::Block &b = emulation::block();
    const uint32_t barrier = b.barriers;
    ++b.progress;
    if (++b.arrived == b.dim.x) {
        b.arrived = 0;
        ++b.barriers;
    }
    while (b.barriers == barrier) emulation::yield();
}

static inline void __syncwarp() {
    emulation::collective({}, [](const emulation::Exchange &) {});
}

static inline uint32_t __umulhi(uint32_t a, uint32_t b) { return uint32_t(uint64_t(a) * b >> 32); }

static inline int __popc(uint32_t x) { return __builtin_popcount(x); }

static inline int __ffs(int x) { return __builtin_ffs(x); }

template <typename T> static inline T __shfl_sync(uint32_t, T value, uint32_t from) {
    static_assert(sizeof(T) == 4, "one word");
    uint32_t word;
    memcpy(&word, &value, 4);
    emulation::collective({word}, [&](const emulation::Exchange &exchange) { memcpy(&value, exchange.words[from % 32], 4); });
    return value;
}

template <typename T> static inline T __shfl_xor_sync(uint32_t mask, T value, uint32_t offset) {
    return __shfl_sync(mask, value, emulation::lane() ^ offset);
}

static inline uint32_t __ballot_sync(uint32_t, int is_set) {
    uint32_t lanes = 0;
    emulation::collective({uint32_t(is_set != 0)}, [&](const emulation::Exchange &exchange) {
        for (uint32_t i = 0; i < 32; ++i) lanes |= exchange.words[i][0] << i;
    });
    return lanes;
}

static inline float bits_to_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline uint32_t float_to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

struct bf16 {
    uint16_t bits;
};

struct f16 {
    _Float16 value;
};

static inline float to_float(float x) { return x; }
static inline float to_float(bf16 x) { return bits_to_float(uint32_t(x.bits) << 16); }
static inline float to_float(f16 x) { return float(x.value); }

template <typename T> T from_float(float x);
template <> inline float from_float<float>(float x) { return x; }
template <> inline f16 from_float<f16>(float x) { return {_Float16(x)}; }
template <> inline bf16 from_float<bf16>(float x) {
    const uint32_t bits = float_to_bits(x);
    if (x != x) return {uint16_t(bits >> 16 | 0x40)};
    return {uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

static inline float exp2_approx(float x) { return exp2f(x); }

static inline uint32_t shared_address(const void *pointer) {
    return uint32_t(static_cast<const unsigned char *>(pointer) - emulation::block().shared.data());
}

// The line of the kernel that calls a function with this as its last argument.
#define CALLER emulation::Line line = {__builtin_FILE(), __builtin_LINE()}

template <typename T> static inline T load_shared(const T *from, CALLER) {
    emulation::count(emulation::Access::Load, line, reinterpret_cast<uintptr_t>(from), sizeof(T));
    return *from;
}

template <typename T> static inline void store_shared(T *to, T value, CALLER) {
    emulation::count(emulation::Access::Store, line, reinterpret_cast<uintptr_t>(to), sizeof(T));
    *to = value;
}

static inline uint32_t computed_here(uint32_t x) { return x; }

static inline void copy_async_16(uint32_t to, const void *from, bool valid, CALLER) {
    emulation::count(emulation::Access::Copy, line, to, 16);
    if (reinterpret_cast<uintptr_t>(from) % 16) emulation::fail("copy_async_16: unaligned source");
    emulation::shared_bytes(to, 16);
    emulation::Copy copy = {to, {}};
    if (valid) memcpy(copy.bytes, from, 16);
    emulation::block().current->started.push_back(copy);
}

static inline void copy_async_commit() {
    emulation::Thread &thread = *emulation::block().current;
    thread.committed.insert(thread.committed.end(), thread.started.begin(), thread.started.end());
    thread.started.clear();
}

static inline void copy_async_wait_all() {
    emulation::Thread &thread = *emulation::block().current;
    for (const emulation::Copy &copy : thread.committed) memcpy(emulation::shared_bytes(copy.to, 16), copy.bytes, 16);
    thread.committed.clear();
}

static inline void load_matrices(uint32_t (&r)[4], uint32_t address, CALLER) {
    emulation::count(emulation::Access::Matrices, line, address, 16);
    emulation::collective({address}, [&](const emulation::Exchange &exchange) {
        const uint32_t lane = emulation::lane();
        for (int i = 0; i < 4; ++i) {
            memcpy(&r[i], emulation::shared_bytes(exchange.words[8 * i + lane / 4][0], 16) + lane % 4 * 4, 4);
        }
    });
}

static inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t address, CALLER) {
    emulation::count(emulation::Access::Matrices, line, address, 16);
    emulation::collective({address}, [&](const emulation::Exchange &exchange) {
        const uint32_t lane = emulation::lane();
        for (int i = 0; i < 4; ++i) {
            uint16_t pair[2];
            for (int j = 0; j < 2; ++j) {
                const uint32_t row = exchange.words[8 * i + lane % 4 * 2 + j][0];
                memcpy(&pair[j], emulation::shared_bytes(row, 16) + lane / 4 * 2, 2);
            }
            memcpy(&r[i], pair, 4);
        }
    });
}

template <typename T> static inline float half_of(uint32_t word, uint32_t half) {
    const uint16_t bits = uint16_t(half ? word >> 16 : word);
    T value;
    memcpy(&value, &bits, 2);
    return to_float(value);
}

template <typename T> static inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    emulation::collective({a[0], a[1], a[2], a[3], b0, b1}, [&](const emulation::Exchange &exchange) {
        const uint32_t lane = emulation::lane();
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
            float sum = c[i];
            for (uint32_t k = 0; k < 16; ++k) {
                const uint32_t *left = exchange.words[row % 8 * 4 + k % 8 / 2], *right = exchange.words[column * 4 + k % 8 / 2];
                sum += half_of<T>(left[row / 8 + 2 * (k / 8)], k % 2) * half_of<T>(right[4 + k / 8], k % 2);
            }
            c[i] = sum;
        }
    });
}
