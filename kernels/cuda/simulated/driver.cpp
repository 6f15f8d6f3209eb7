// The driver's entry points except kernel launches: arguments are checked as the driver checks them, work is queued on streams.
#include "driver.h"

#include "memory.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>

using namespace simulated;

struct CUctx_st {
    int device;
    std::atomic<int> retained{0};
};

using Clock = std::chrono::steady_clock;

struct CUevent_st {
    int device;
    Ticket ticket;
    // Time at which the preceding work was done; shared with the work that sets it, which may outlive the event. None without timing.
    std::shared_ptr<Clock::time_point> at;
    // The thread sleeps while it waits.
    bool blocking;
};

static CUctx_st *const contexts = new CUctx_st[MAX_DEVICES];
static thread_local CUctx_st *current = nullptr;
static std::atomic<bool> initialized{false};

namespace simulated {

int current_device() { return current ? current->device : -1; }

Stream *stream_of(CUstream handle) {
    return handle ? reinterpret_cast<Stream *>(handle) : legacy_stream(current_device());
}

CUresult ready() {
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    return state(current->device);
}

CUresult same_device(CUstream handle) {
    return device_of(stream_of(handle)) == current->device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int most_shared() { return settings().major == 8 && settings().minor != 0 ? 99 << 10 : settings().major == 8 ? 163 << 10 : 227 << 10; }

} // namespace simulated

CUresult cuInit(unsigned) {
    if (const CUresult due = fault(Point::Init)) return due;
    reserve_addresses();
    for (int i = 0; i < MAX_DEVICES; ++i) contexts[i].device = i;
    if (settings().devices > MAX_DEVICES) fail("SIM_DEVICES: at most %d", MAX_DEVICES);
    if (settings().devices == 0) return CUDA_ERROR_NO_DEVICE;
    initialized = true;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    *version = settings().driver_version;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    if (const CUresult due = fault(Point::Count)) return due;
    *count = settings().devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= settings().devices) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice) {
    strncpy(name, settings().name.c_str(), size_t(len));
    if (len > 0) name[len - 1] = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = settings().major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = settings().minor; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 16; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = most_shared(); break;
    default: fail("cuDeviceGetAttribute: attribute %d is not simulated", int(attribute));
    }
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    if (device < 0 || device >= settings().devices) return CUDA_ERROR_INVALID_DEVICE;
    ++contexts[device].retained;
    *context = &contexts[device];
    return state(device);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    if (contexts[device].retained-- <= 0) return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext) { return CUDA_ERROR_INVALID_CONTEXT; } // Only primary contexts exist.

CUresult cuCtxSetCurrent(CUcontext context) {
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    *context = current;
    return CUDA_SUCCESS;
}

// Waits, then checks the red zone of every allocation.
template <typename Wait> static CUresult synchronize(const char *call, Wait wait) {
    FAULT(Point::Synchronize);
    count_wait();
    NOTHING_ON_NULL;
    if (due != CUDA_SUCCESS) enqueue(legacy_stream(current->device), {call, [] {}, {}}, due);
    const CUresult result = wait();
    check_red_zones(call);
    return result;
}

CUresult cuCtxSynchronize() {
    READY;
    return synchronize("cuCtxSynchronize", [] { return wait_for_device(current->device); });
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    READY;
    *stream = reinterpret_cast<CUstream>(new_stream(current->device, flags != CU_STREAM_NON_BLOCKING));
    return CUDA_SUCCESS;
}

// Priorities as a device since 8.0 has them. They are a hint: work of other streams may run first, as it does here by the seed.
constexpr int LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5;

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    READY;
    *least = LEAST_PRIORITY, *greatest = GREATEST_PRIORITY;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    READY;
    if (priority > LEAST_PRIORITY || priority < GREATEST_PRIORITY) fail("cuStreamCreateWithPriority: priority %d is out of range", priority);
    return cuStreamCreate(stream, flags);
}

CUresult cuStreamDestroy(CUstream stream) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    end_stream(stream_of(stream));
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
    READY;
    return synchronize("cuStreamSynchronize", [=] {
        const CUresult result = wait_for(last(stream_of(stream)));
        return result;
    });
}

CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus *status) {
    READY;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    READY;
    const bool timed = !(flags & CU_EVENT_DISABLE_TIMING);
    const bool blocking = flags & CU_EVENT_BLOCKING_SYNC;
    *event = new CUevent_st{current->device, {}, timed ? std::make_shared<Clock::time_point>() : nullptr, blocking};
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    delete event;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    READY;
    if (event->device != device_of(stream_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
    const auto at = event->at;
    count(Counted::Events);
    event->ticket = enqueue(stream_of(stream), {"cuEventRecord", [at] { if (at) *at = Clock::now(); }, {}});
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    READY;
    if (!event->ticket.stream) return CUDA_SUCCESS; // Never recorded: nothing to wait for.
    enqueue(stream_of(stream), {"cuStreamWaitEvent", [] {}, {event->ticket}});
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
    READY;
    if (!event->ticket.stream) return CUDA_SUCCESS;
    // A blocking event is for a copy, which the program waits for in any case.
    if (is_done(event->ticket) && !event->blocking) return state(current->device);
    return synchronize("cuEventSynchronize", [=] { return wait_for(event->ticket); });
}

CUresult cuEventQuery(CUevent event) {
    READY;
    if (!event->ticket.stream || is_done(event->ticket)) return state(current->device);
    return CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    READY;
    if (!start->ticket.stream || !end->ticket.stream || !start->at || !end->at) return CUDA_ERROR_INVALID_HANDLE;
    if (!is_done(start->ticket) || !is_done(end->ticket)) return CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(*end->at - *start->at).count();
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *available, size_t *total) {
    READY;
    *available = free_bytes(current->device), *total = settings().bytes;
    return CUDA_SUCCESS;
}

// Memory freed in stream order is available again once the stream's work is done, so the driver waits for it.
static uint64_t allocate_or_wait(size_t bytes) {
    if (const uint64_t address = allocate(current->device, bytes)) return address;
    wait_for_device(current->device);
    return allocate(current->device, bytes);
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    READY;
    FAULT(Point::Alloc);
    if (const CUresult error = same_device(stream)) return error;
    *address = 0;
    if (bytes == 0) return CUDA_SUCCESS;
    const uint64_t allocated = allocate_or_wait(bytes);
    if (!allocated) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = allocated;
    count(Counted::Allocations, bytes);
    NOTHING_ON_NULL;
    enqueue(stream_of(stream), {"cuMemAllocAsync", [=] { open_memory(allocated); }, {}}, due);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    READY;
    if (!address) return CUDA_SUCCESS;
    if (!is_allocated(address, 0)) fail("cuMemFreeAsync: %#llx is not allocated: freed twice, or never given out", address);
    count(Counted::Frees);
    if (settings().does_nothing) {
        close_memory(address, "cuMemFreeAsync");
        return CUDA_SUCCESS;
    }
    enqueue(stream_of(stream), {"cuMemFreeAsync", [=] { close_memory(address, "cuMemFreeAsync"); }, {}});
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    READY;
    FAULT(Point::Alloc);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    *address = allocate_or_wait(bytes);
    if (!*address) return CUDA_ERROR_OUT_OF_MEMORY;
    count(Counted::Allocations, bytes);
    NOTHING_ON_NULL;
    open_memory(*address);
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
    READY;
    const CUresult result = wait_for_device(current->device);
    count(Counted::Frees);
    if (address) close_memory(address, "cuMemFree");
    return result;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
    READY;
    *pointer = allocate_host(bytes);
    count(Counted::PageLocked, bytes);
    return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *pointer) {
    READY;
    // Pending copies that still use the memory fault.
    return free_host(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A copy from page-locked memory is read when its turn comes, and must not change before; other memory is read at once.
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    READY;
    FAULT(Point::Copy);
    if (const CUresult error = same_device(stream)) return error;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!is_allocated(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    count(Counted::ToDevice, bytes);
    NOTHING_ON_NULL;
    const unsigned char *source = static_cast<const unsigned char *>(from);
    const auto copy = std::make_shared<std::vector<unsigned char>>(source, source + bytes);
    const bool late = is_page_locked(from, bytes);
    const auto run = [=] {
        if (late && memcmp(from, copy->data(), bytes)) fail("cuMemcpyHtoDAsync: the host's memory was changed before it was copied");
        memcpy(view(to, bytes, "cuMemcpyHtoDAsync"), copy->data(), bytes);
    };
    enqueue(stream_of(stream), {"cuMemcpyHtoDAsync", run, {}}, due);
    return CUDA_SUCCESS;
}

// The host's memory is overwritten with garbage at the call; the values arrive when the copy's turn comes.
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    READY;
    FAULT(Point::Copy);
    if (const CUresult error = same_device(stream)) return error;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!is_allocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    count(Counted::ToHost, bytes);
    memset(to, settings().does_nothing ? 0 : 0xff, bytes);
    NOTHING_ON_NULL;
    const auto run = [=] { memcpy(to, view(from, bytes, "cuMemcpyDtoHAsync"), bytes); };
    enqueue(stream_of(stream), {"cuMemcpyDtoHAsync", run, {}}, due);
    return CUDA_SUCCESS;
}

static CUresult copy_on_device(const char *call, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    FAULT(Point::Copy);
    if (bytes == 0) return CUDA_SUCCESS;
    if (!is_allocated(to, bytes) || !is_allocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    count(Counted::OnDevice, bytes);
    NOTHING_ON_NULL;
    const auto run = [=] { memmove(view(to, bytes, call), view(from, bytes, call), bytes); };
    enqueue(stream_of(stream), {call, run, {}}, due);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    READY;
    return copy_on_device("cuMemcpyDtoDAsync", to, from, bytes, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
    READY;
    return copy_on_device("cuMemcpyPeerAsync", to, from, bytes, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    READY;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!is_allocated(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    count(Counted::Memsets, bytes);
    enqueue(stream_of(stream), {"cuMemsetD8Async", [=] { memset(view(to, bytes, "cuMemsetD8Async"), value, bytes); }, {}});
    return CUDA_SUCCESS;
}
