// Turns the addresses of a launch's arguments into a call.
#pragma once

#include "kernels.h"
#include "memory.h"

#include <cstring>
#include <tuple>
#include <utility>

namespace simulated {

// The value that a kernel receives for an argument; structures that contain addresses have their own overload.
template <typename T> T on_device(T value) { return value; }

template <typename T> T *on_device(T *pointer) {
    if (!pointer) return pointer;
    const uint64_t address = reinterpret_cast<uint64_t>(pointer);
    if (device_of(address) < 0) fail("a kernel's argument %p is not device memory", reinterpret_cast<const void *>(pointer));
    return reinterpret_cast<T *>(address + VIEW);
}

template <typename... A, size_t... I> std::tuple<A...> read_arguments(void **arguments, std::index_sequence<I...>) {
    std::tuple<A...> values;
    (memcpy(&std::get<I>(values), arguments[I], sizeof(A)), ...);
    return std::tuple<A...>(on_device(std::get<I>(values))...);
}

// `run(body, grid)` runs the kernel with its arguments bound.
template <typename Run, typename... A>
Kernel make_kernel(const char *name, void (*kernel)(A...), uint32_t max_threads, Run run) {
    return {name, {sizeof(A)...}, max_threads, [kernel, run](void **arguments) -> std::function<void(const Grid &)> {
                auto values = read_arguments<A...>(arguments, std::index_sequence_for<A...>());
                return [kernel, run, values](const Grid &grid) { run([&] { std::apply(kernel, values); }, grid); };
            }};
}

} // namespace simulated
