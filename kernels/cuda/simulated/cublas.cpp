// cuBLAS: a product checked as the library checks it, and computed in f32.
#include "driver.h"
#include "memory.h"
#include "numbers.h"

#include <algorithm>
#include <cstring>
#include <cublas_v2.h>
#include <mutex>
#include <set>
#include <vector>

using namespace simulated;

struct cublasContext {
    int device;
    CUstream stream;
    // The caller's workspace; without one, the library's own.
    uint64_t workspace;
    size_t workspace_bytes;
};

static std::mutex lock;
static std::set<cublasHandle_t> handles;

cublasStatus_t cublasCreate(cublasHandle_t *handle) {
    if (current_device() < 0) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (state(current_device()) != CUDA_SUCCESS) return CUBLAS_STATUS_NOT_INITIALIZED;
    const std::lock_guard<std::mutex> guard(lock);
    handles.insert(*handle = new cublasContext{current_device(), nullptr, 0, 0});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    const std::lock_guard<std::mutex> guard(lock);
    handles.erase(handle);
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    handle->stream = reinterpret_cast<CUstream>(stream);
    handle->workspace = 0, handle->workspace_bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
}

// Products of different streams may run at once: two handles with the same memory would be a race.
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes) {
    const uint64_t address = reinterpret_cast<uint64_t>(workspace);
    if (address % 256) return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_allocated(address, bytes)) fail("cublasSetWorkspace: %zu bytes at %#lx leave their allocation", bytes, address);
    const std::lock_guard<std::mutex> guard(lock);
    for (const cublasHandle_t other : handles) {
        const bool overlaps = address < other->workspace + other->workspace_bytes && other->workspace < address + bytes;
        if (other != handle && overlaps) fail("cublasSetWorkspace: two handles have the same workspace at %#lx", address);
    }
    handle->workspace = address, handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }

namespace {

size_t size_of(cudaDataType type) {
    switch (type) {
    case CUDA_R_32F: return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    default: return 0;
    }
}

float get(const void *values, cudaDataType type, size_t index) {
    switch (type) {
    case CUDA_R_32F: return static_cast<const float *>(values)[index];
    case CUDA_R_16F: return float(static_cast<const Float16 *>(values)[index]);
    default: return float(static_cast<const Bfloat16 *>(values)[index]);
    }
}

void set(void *values, cudaDataType type, size_t index, float x) {
    switch (type) {
    case CUDA_R_32F: static_cast<float *>(values)[index] = x; break;
    case CUDA_R_16F: static_cast<Float16 *>(values)[index] = Float16(x); break;
    default: static_cast<Bfloat16 *>(values)[index] = Bfloat16(x);
    }
}

// One operand: `rows` x `columns` as it lies, by columns.
struct Matrix {
    const char *name;
    uint64_t address;
    cudaDataType type;
    int rows, columns, leading;

    size_t bytes() const { return (size_t(columns - 1) * size_t(leading) + size_t(rows)) * size_of(type); }

    // Returns the library's status; aborts where a device would fault.
    cublasStatus_t check() const {
        if (leading < rows || leading < 1) return CUBLAS_STATUS_INVALID_VALUE;
        if (!size_of(type)) return CUBLAS_STATUS_NOT_SUPPORTED;
        if (address % size_of(type)) fail("cublasGemmEx: %s at %#lx is not aligned", name, address);
        if (!is_allocated(address, bytes())) {
            fail("cublasGemmEx: %s, %d x %d with leading dimension %d at %#lx, leaves its allocation", name, rows, columns, leading, address);
        }
        return CUBLAS_STATUS_SUCCESS;
    }

    // op(this) with the inner dimension contiguous: [outer, k].
    std::vector<float> lines(bool inner_is_rows) const {
        const void *values = view(address, bytes(), "cublasGemmEx");
        const int outer = inner_is_rows ? columns : rows, k = inner_is_rows ? rows : columns;
        std::vector<float> lines(size_t(outer) * size_t(k));
        for (int i = 0; i < outer; ++i) {
            for (int j = 0; j < k; ++j) {
                const size_t at = inner_is_rows ? size_t(i) * size_t(leading) + size_t(j) : size_t(j) * size_t(leading) + size_t(i);
                lines[size_t(i) * size_t(k) + size_t(j)] = get(values, type, at);
            }
        }
        return lines;
    }
};

// Sums in lanes, so that a compiler can use the CPU's.
float dot(const float *a, const float *b, size_t k) {
    constexpr size_t LANES = 16;
    float sums[LANES] = {};
    size_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        for (size_t lane = 0; lane < LANES; ++lane) sums[lane] += a[i + lane] * b[i + lane];
    }
    float sum = 0.0f;
    for (; i < k; ++i) sum += a[i] * b[i];
    for (float lane : sums) sum += lane;
    return sum;
}

void multiply(const Matrix &a, bool a_transposed, const Matrix &b, bool b_transposed, const Matrix &c, float alpha, float beta) {
    const std::vector<float> left = a.lines(a_transposed), right = b.lines(!b_transposed);
    const size_t k = size_t(a_transposed ? a.rows : a.columns);
    void *out = view(c.address, c.bytes(), "cublasGemmEx");
    for (int j = 0; j < c.columns; ++j) {
        for (int i = 0; i < c.rows; ++i) {
            const size_t at = size_t(j) * size_t(c.leading) + size_t(i);
            const float product = alpha * dot(&left[size_t(i) * k], &right[size_t(j) * k], k);
            set(out, c.type, at, beta == 0.0f ? product : product + beta * get(out, c.type, at));
        }
    }
}

} // namespace

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const void *alpha,
                            const void *a, cudaDataType a_type, int lda, const void *b, cudaDataType b_type, int ldb, const void *beta, void *c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (current_device() != handle->device) fail("cublasGemmEx: the thread's context is not the handle's");
    if (state(handle->device) != CUDA_SUCCESS) return CUBLAS_STATUS_EXECUTION_FAILED;
    const CUresult due = fault(Point::Gemm);
    if (due == CUDA_ERROR_OUT_OF_MEMORY) return CUBLAS_STATUS_ALLOC_FAILED;
    if (due != CUDA_SUCCESS && !is_sticky(due)) return CUBLAS_STATUS_INTERNAL_ERROR;
    if (m < 0 || n < 0 || k < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (compute != CUBLAS_COMPUTE_32F || a_type != b_type || (c_type != a_type && c_type != CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!m || !n) return CUBLAS_STATUS_SUCCESS;
    count(Counted::Products);
    if (settings().does_nothing) return CUBLAS_STATUS_SUCCESS;
    const bool ta = transa != CUBLAS_OP_N, tb = transb != CUBLAS_OP_N;
    const auto address = [](const void *pointer) { return reinterpret_cast<uint64_t>(pointer); };
    const Matrix left = {"A", address(a), a_type, ta ? k : m, ta ? m : k, lda};
    const Matrix right = {"B", address(b), b_type, tb ? n : k, tb ? k : n, ldb};
    const Matrix out = {"C", address(c), c_type, m, n, ldc};
    for (const Matrix *matrix : {&left, &right, &out}) {
        if (const cublasStatus_t status = matrix->check()) return status;
    }
    // Factors are on the host, the handle's default.
    const float scale = *static_cast<const float *>(alpha), keep = *static_cast<const float *>(beta);
    const uint64_t workspace = handle->workspace;
    const size_t scratch = std::min(handle->workspace_bytes, size_t(4096));
    const auto run = [=] {
        if (scratch) memset(view(workspace, scratch, "cublasGemmEx"), 0xff, scratch);
        multiply(left, ta, right, tb, out, scale, keep);
    };
    enqueue(stream_of(handle->stream), {"cublasGemmEx", run, {}}, due);
    return CUBLAS_STATUS_SUCCESS;
}

// candle's products of tensors with more dimensions, which benchmarks link and prefold never calls.
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const double *, const double *, int,
                                         long long, const double *, int, long long, const double *, double *, int, long long, int) {
    fail("cublasDgemmStridedBatched is not simulated");
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void *, const void *,
                                          cudaDataType, int, long long, const void *, cudaDataType, int, long long, const void *, void *,
                                          cudaDataType, int, long long, int, cublasComputeType_t, cublasGemmAlgo_t) {
    fail("cublasGemmStridedBatchedEx is not simulated");
}
