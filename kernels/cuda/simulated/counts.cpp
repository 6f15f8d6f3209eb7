#include "counts.h"

#include "settings.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

namespace simulated {

static const struct {
    const char *name;
    bool has_bytes;
} KINDS[] = {{"products", false}, {"to_device", true},   {"to_host", true},     {"on_device", true},
             {"memsets", true},   {"allocations", true}, {"page_locked", true}, {"frees", false}, {"events", false}};
constexpr size_t NUMBER = sizeof KINDS / sizeof *KINDS;

namespace {
struct Counts {
    std::mutex lock;
    FILE *file = nullptr;
    uint64_t calls[NUMBER] = {}, bytes[NUMBER] = {}, deepest_queue = 0;
    std::map<std::string, uint64_t> launches;

    Counts() {
        const std::string &path = settings().count_file;
        if (path.empty()) return;
        file = fopen(path.c_str(), "w");
        if (!file) fail("SIM_COUNT=%s cannot be written", path.c_str());
    }

    void write() {
        uint64_t launched = 0;
        for (const auto &[kernel, number] : launches) launched += number;
        fprintf(file, "{\"launches\": %lu", launched);
        for (size_t i = 0; i < NUMBER; ++i) {
            fprintf(file, ", \"%s\": %lu", KINDS[i].name, calls[i]);
            if (KINDS[i].has_bytes) fprintf(file, ", \"%s_bytes\": %lu", KINDS[i].name, bytes[i]);
        }
        fprintf(file, ", \"deepest_queue\": %lu, \"kernels\": {", deepest_queue);
        const char *comma = "";
        for (const auto &[kernel, number] : launches) {
            fprintf(file, "%s\"%s\": %lu", comma, kernel.c_str(), number);
            comma = ", ";
        }
        fprintf(file, "}}\n");
        fflush(file);
    }
};

// Never destroyed: threads may still call when the process ends.
Counts &counts() {
    static Counts &counts = *new Counts;
    return counts;
}
} // namespace

void count(Counted what, size_t bytes) {
    if (settings().count_file.empty()) return;
    const std::lock_guard<std::mutex> guard(counts().lock);
    ++counts().calls[int(what)];
    counts().bytes[int(what)] += bytes;
}

void count_launch(const char *kernel) {
    if (settings().count_file.empty()) return;
    const std::lock_guard<std::mutex> guard(counts().lock);
    ++counts().launches[kernel];
}

void count_queue(size_t depth) {
    if (settings().count_file.empty()) return;
    const std::lock_guard<std::mutex> guard(counts().lock);
    counts().deepest_queue = std::max(counts().deepest_queue, depth);
}

void count_wait() {
    if (settings().count_file.empty()) return;
    Counts &c = counts();
    const std::lock_guard<std::mutex> guard(c.lock);
    c.write();
    std::fill(std::begin(c.calls), std::end(c.calls), 0);
    std::fill(std::begin(c.bytes), std::end(c.bytes), 0);
    c.deepest_queue = 0;
    c.launches.clear();
}

} // namespace simulated
