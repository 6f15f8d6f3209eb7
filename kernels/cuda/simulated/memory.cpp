#include "memory.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <signal.h>
#include <sys/mman.h>

namespace simulated {

constexpr size_t PAGE = 4096, LEAST_RED_ZONE = 64;
// NaN as f32, bf16 and f16; differs from fresh memory, which is NaN too.
constexpr unsigned char RED[4] = {0xf5, 0xff, 0xf5, 0xff};

struct Allocation {
    size_t bytes, mapped;
    bool open = false;
};

thread_local const char *running = nullptr;

// Never destroyed: the device's thread may still run when the process ends.
static std::mutex &lock = *new std::mutex;
static std::map<uint64_t, Allocation> &allocations = *new std::map<uint64_t, Allocation>;
static std::map<uintptr_t, size_t> &page_locked = *new std::map<uintptr_t, size_t>;
static uint64_t next_address[MAX_DEVICES];
static size_t used[MAX_DEVICES];
static struct sigaction before;

static void reserve(uint64_t address, size_t bytes) {
    void *at = reinterpret_cast<void *>(address);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    if (mmap(at, bytes, PROT_NONE, flags, -1, 0) != at) fail("the addresses at %#lx cannot be reserved", address);
}

// Describes a fault by the owner of its address. Allocates nothing and takes no lock.
static void on_fault(int signal, siginfo_t *info, void *context) {
    const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
    const char *who = running ? running : "the host";
    if (address - BASE < MAX_DEVICES * DEVICE_SPAN) fail("%s touches device memory at %#lx", who, address);
    if (address - BASE - VIEW < MAX_DEVICES * DEVICE_SPAN) {
        fail("%s touches %#lx, where nothing is allocated or what was is freed", who, address - VIEW);
    }
    if (running) fail("%s touches %#lx, which is not device memory", who, address);
    if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
    sigaction(signal, &before, nullptr);
}

void reserve_addresses() {
    static std::once_flag once;
    std::call_once(once, [] {
        for (int device = 0; device < MAX_DEVICES; ++device) {
            next_address[device] = BASE + uint64_t(device) * DEVICE_SPAN + (1 << 20);
        }
        reserve(BASE, MAX_DEVICES * DEVICE_SPAN);
        reserve(BASE + VIEW, MAX_DEVICES * DEVICE_SPAN);
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(SIGSEGV, &action, &before);
    });
}

static unsigned char *view_of(uint64_t address) { return reinterpret_cast<unsigned char *>(address + VIEW); }

uint64_t allocate(int device, size_t bytes) {
    const std::lock_guard<std::mutex> guard(lock);
    // Sizes are rounded up to 512 bytes, as in a driver.
    const size_t counted = (bytes + 511) / 512 * 512;
    if (counted > settings().bytes - used[device]) return 0;
    Allocation allocation;
    allocation.bytes = bytes;
    allocation.mapped = (bytes + LEAST_RED_ZONE + PAGE - 1) / PAGE * PAGE;
    const uint64_t address = next_address[device];
    // A page between two allocations belongs to neither.
    next_address[device] += allocation.mapped + PAGE;
    if (next_address[device] > BASE + uint64_t(device + 1) * DEVICE_SPAN) fail("the simulator has no addresses left");
    used[device] += counted;
    allocations.emplace(address, allocation);
    return address;
}

void open_memory(uint64_t address) {
    const std::lock_guard<std::mutex> guard(lock);
    Allocation &allocation = allocations.at(address);
    if (mprotect(view_of(address), allocation.mapped, PROT_READ | PROT_WRITE)) fail("no memory for %zu bytes", allocation.mapped);
    memset(view_of(address), 0xff, allocation.bytes);
    for (size_t i = allocation.bytes; i < allocation.mapped; ++i) view_of(address)[i] = RED[i % 4];
    allocation.open = true;
}

static void check_red_zone(uint64_t address, const Allocation &allocation, const char *call) {
    if (!allocation.open) return;
    for (size_t i = allocation.bytes; i < allocation.mapped; ++i) {
        if (view_of(address)[i] != RED[i % 4]) {
            fail("%s: %zu bytes behind the end of an allocation of %zu something was written", call, i - allocation.bytes, allocation.bytes);
        }
    }
}

void close_memory(uint64_t address, const char *call) {
    const std::lock_guard<std::mutex> guard(lock);
    const auto found = allocations.find(address);
    if (found == allocations.end()) fail("%s: %#lx is not allocated: freed twice, or never given out", call, address);
    check_red_zone(address, found->second, call);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    mmap(view_of(address), found->second.mapped, PROT_NONE, flags, -1, 0);
    used[device_of(address)] -= (found->second.bytes + 511) / 512 * 512;
    allocations.erase(found);
}

size_t free_bytes(int device) {
    const std::lock_guard<std::mutex> guard(lock);
    return settings().bytes - used[device];
}

int device_of(uint64_t address) {
    return address - BASE < MAX_DEVICES * DEVICE_SPAN ? int((address - BASE) / DEVICE_SPAN) : -1;
}

// The allocation that a range lies in, or nullptr.
static const Allocation *find(uint64_t address, size_t bytes) {
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin()) return nullptr;
    --after;
    const uint64_t offset = address - after->first;
    const bool inside = offset <= after->second.bytes && bytes <= after->second.bytes - offset;
    return inside ? &after->second : nullptr;
}

void *view(uint64_t address, size_t bytes, const char *call) {
    const std::lock_guard<std::mutex> guard(lock);
    const Allocation *allocation = find(address, bytes);
    if (!allocation) fail("%s: %zu bytes at %#lx are not in one allocation", call, bytes, address);
    if (!allocation->open) fail("%s: the memory at %#lx is used before its allocation in the order of the streams", call, address);
    return view_of(address);
}

bool is_allocated(uint64_t address, size_t bytes) {
    const std::lock_guard<std::mutex> guard(lock);
    return find(address, bytes) != nullptr;
}

void check_red_zones(const char *call) {
    const std::lock_guard<std::mutex> guard(lock);
    for (const auto &[address, allocation] : allocations) check_red_zone(address, allocation, call);
}

void *allocate_host(size_t bytes) {
    void *memory = mmap(nullptr, std::max<size_t>(bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    memset(memory, 0xff, bytes);
    const std::lock_guard<std::mutex> guard(lock);
    page_locked[reinterpret_cast<uintptr_t>(memory)] = bytes;
    return memory;
}

bool free_host(void *pointer) {
    const std::lock_guard<std::mutex> guard(lock);
    const auto found = page_locked.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == page_locked.end()) return false;
    munmap(pointer, std::max<size_t>(found->second, 1));
    page_locked.erase(found);
    return true;
}

bool is_page_locked(const void *pointer, size_t bytes) {
    const std::lock_guard<std::mutex> guard(lock);
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    auto after = page_locked.upper_bound(address);
    if (after == page_locked.begin()) return false;
    --after;
    return address + bytes <= after->first + after->second;
}

} // namespace simulated
