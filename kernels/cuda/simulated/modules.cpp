// Modules, functions and launches.
#include "driver.h"
#include "kernels.h"

#include <algorithm>
#include <cstring>

using namespace simulated;

struct CUmod_st {
    int device;
};

struct CUfunc_st {
    const Kernel *kernel;
    int device;
    uint32_t max_shared = 48 << 10;
    // Code is loaded at the first launch unless requested earlier, as with CUDA_MODULE_LOADING=LAZY.
    bool loaded = false;
};

// True if one of a fat binary's images is for this device: the same major version, or PTX.
static bool fits(const unsigned char *image) {
    uint16_t header_size;
    uint64_t size;
    memcpy(&header_size, image + 6, 2), memcpy(&size, image + 8, 8);
    const uint32_t device = uint32_t(settings().major * 10 + settings().minor);
    for (uint64_t at = header_size; at < header_size + size;) {
        uint16_t kind;
        uint32_t entry_header, architecture;
        uint64_t entry_size;
        memcpy(&kind, image + at, 2), memcpy(&entry_header, image + at + 4, 4);
        memcpy(&entry_size, image + at + 8, 8), memcpy(&architecture, image + at + 28, 4);
        const bool is_ptx = kind == 1;
        if (architecture <= device && (is_ptx || architecture / 10 == device / 10)) return true;
        at += entry_header + entry_size;
    }
    return false;
}

// An ELF file for a GPU.
static bool is_cubin(const unsigned char *image) {
    constexpr uint16_t CUDA = 190;
    if (memcmp(image, "\x7f" "ELF", 4)) return false;
    uint16_t machine;
    memcpy(&machine, image + 18, 2);
    return machine == CUDA;
}

// True if the architecture in its ELF flags is the device's; since CUDA 13 it is in their second byte.
static bool cubin_fits(const unsigned char *image) {
    constexpr size_t ABI_VERSION = 8, FLAGS = 48;
    uint32_t flags;
    memcpy(&flags, image + FLAGS, 4);
    const uint32_t architecture = image[ABI_VERSION] >= 8 ? flags >> 8 & 0xff : flags & 0xff;
    return architecture / 10 == uint32_t(settings().major) && architecture % 10 <= uint32_t(settings().minor);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    READY;
    constexpr uint32_t FATBIN = 0xba55ed50;
    uint32_t magic;
    memcpy(&magic, image, 4);
    const bool is_text = memcmp(image, "//", 2) == 0 || memcmp(image, ".version", 8) == 0;
    const auto *bytes = static_cast<const unsigned char *>(image);
    const bool is_fatbin = magic == FATBIN, is_code = is_cubin(bytes);
    if (!is_fatbin && !is_code && !is_text) return CUDA_ERROR_INVALID_IMAGE;
    if ((is_fatbin && !fits(bytes)) || (is_code && !cubin_fits(bytes))) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (is_text && settings().driver_version < 13000) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    *module = new CUmod_st{current_device()};
    return CUDA_SUCCESS;
}

CUresult cuModuleLoad(CUmodule *, const char *) { fail("cuModuleLoad is not simulated"); }

CUresult cuModuleUnload(CUmodule module) {
    delete module;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    READY;
    const Kernel *kernel = find_kernel(name);
    if (!kernel) {
        if (settings().verbose) fprintf(stderr, "simulated device: there is no kernel %s\n", name);
        return CUDA_ERROR_NOT_FOUND;
    }
    *function = new CUfunc_st{kernel, module->device};
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
    READY;
    function->loaded = true;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    READY;
    const std::vector<size_t> &sizes = function->kernel->arguments;
    if (index >= sizes.size()) return CUDA_ERROR_INVALID_VALUE;
    // An argument is aligned to its size; a structure, which contains pointers, to 8 bytes.
    size_t end = 0;
    for (size_t i = 0; i <= index; ++i) {
        const size_t alignment = std::min<size_t>(sizes[i], 8);
        *offset = (end + alignment - 1) / alignment * alignment;
        end = *offset + sizes[i];
    }
    if (size) *size = sizes[index];
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    READY;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) fail("cuFuncSetAttribute: attribute %d is not simulated", int(attribute));
    if (value < 0 || value > most_shared()) return CUDA_ERROR_INVALID_VALUE;
    function->max_shared = uint32_t(value);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y, unsigned threads_z,
                        unsigned shared_bytes, CUstream stream, void **arguments, void **extra) {
    READY;
    FAULT(Point::Launch);
    const Kernel &kernel = *function->kernel;
    if (function->device != current_device() || same_device(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!x || !y || !z || !threads || threads > kernel.max_threads) return CUDA_ERROR_INVALID_VALUE;
    if (shared_bytes > function->max_shared || x > 0x7fffffff) return CUDA_ERROR_INVALID_VALUE;
    if (y != 1 || z != 1 || threads_y != 1 || threads_z != 1 || extra) fail("%s: only grids and blocks of one dimension are simulated", kernel.name);
    if (!function->loaded) fprintf(stderr, "simulated device: loads %s at its first launch\n", kernel.name);
    function->loaded = true;
    count_launch(kernel.name);
    NOTHING_ON_NULL;
    const auto run = kernel.bind(arguments);
    const Grid grid = {x, threads, shared_bytes};
    enqueue(stream_of(stream), {kernel.name, [=] { run(grid); }, {}}, due);
    return CUDA_SUCCESS;
}
