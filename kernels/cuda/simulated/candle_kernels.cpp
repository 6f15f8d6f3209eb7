// Kernels of candle that prefold reaches, by their definition: element by element, in the order of the elements.
#include "arguments.h"
#include "numbers.h"

namespace simulated {

static void once(const std::function<void()> &body, const Grid &) { body(); }

std::vector<Kernel> candle_kernels() { return {}; }

const Kernel *find_kernel(const std::string &name) {
    static const std::vector<Kernel> &kernels = *[] {
        auto *all = new std::vector<Kernel>(own_kernels());
        for (Kernel &kernel : candle_kernels()) all->push_back(std::move(kernel));
        return all;
    }();
    for (const Kernel &kernel : kernels) {
        if (name == kernel.name) return &kernel;
    }
    return nullptr;
}

} // namespace simulated
