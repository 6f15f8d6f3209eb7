// Device memory: addresses that the host may not touch.
//
// A device's addresses are reserved without access, so that a read by the host faults. The simulator keeps the content at a fixed
// offset (`VIEW`), also without access where nothing is allocated: an access outside of the live allocations faults too, with a
// message that names the allocation. Addresses are never reused.
#pragma once

#include "settings.h"

namespace simulated {

constexpr uint64_t BASE = 0x100000000000, DEVICE_SPAN = uint64_t(4) << 40, VIEW = 0x200000000000;
constexpr int MAX_DEVICES = 4;

// Reserves the addresses and installs the fault handler; called once.
void reserve_addresses();

// New addresses for `bytes` on a device; 0 if it has no room. They are accessible from `open` on.
uint64_t allocate(int device, size_t bytes);
// Makes the memory accessible, filled with bits that are NaN in every float type and out of range as an index, with a
// red zone behind it.
void open_memory(uint64_t address);
// No access from here on. Checks the red zone.
void close_memory(uint64_t address, const char *call);
// Bytes not given out.
size_t free_bytes(int device);

// The device that an address belongs to; -1 if it is not a device's.
int device_of(uint64_t address);
// The simulator's view of a range that must lie in one open allocation; aborts with the name of the call.
void *view(uint64_t address, size_t bytes, const char *call);
// True if the range lies in a live allocation, so that a call may use it.
bool is_allocated(uint64_t address, size_t bytes);
// Aborts if something wrote behind an allocation.
void check_red_zones(const char *call);

// Page-locked host memory.
void *allocate_host(size_t bytes);
bool free_host(void *pointer);
// True if the range is in page-locked memory.
bool is_page_locked(const void *pointer, size_t bytes);

// Name of the work on the device's thread, for messages; nullptr when idle.
extern thread_local const char *running;

} // namespace simulated
