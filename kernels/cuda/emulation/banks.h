// Banks of shared memory: the wavefronts that a warp's accesses take.
//
// There are 32 banks of 4 bytes, and a wavefront reads or writes one word of each. An access is served in phases: one phase of all lanes
// for up to 4 bytes per lane, phases of sixteen lanes for 8 bytes, and of eight lanes for 16 bytes and for the rows of each matrix that
// `ldmatrix` reads. A phase takes as many wavefronts as its lanes have different words in one bank; wavefronts after the first are
// conflicts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

namespace emulation {

enum class Access { Matrices, Copy, Load, Store };

inline const char *name_of(Access access) {
    static const char *const NAMES[] = {"ldmatrix", "cp.async", "load", "store"};
    return NAMES[int(access)];
}

// A line of a kernel's source.
struct Line {
    const char *file;
    int number;
};

struct Site {
    Access access;
    Line line;

    bool operator<(const Site &other) const {
        const int order = strcmp(line.file, other.line.file);
        return std::tie(access, order, line.number) < std::tie(other.access, ZERO, other.line.number);
    }

  private:
    static constexpr int ZERO = 0;
};

// Counts of whole warps.
struct Wavefronts {
    uint64_t accesses = 0, conflicts = 0;
};

class Banks {
  public:
    // A lane's access, grouped with the accesses of the warp's other lanes at the same site. Where a site is passed several times before
    // the lanes meet, as in an unrolled loop, the first pass of one lane is grouped with the first pass of the others, and so on.
    void access(uint32_t warp, uint32_t lane, const Site &site, uintptr_t address, uint32_t bytes) {
        const uint32_t time = pending[warp].times[{site, lane}]++;
        Group &group = pending[warp].groups[{site, time}];
        group.bytes = bytes;
        group.addresses[lane] = address;
    }

    // All lanes of the warp are at the same place.
    void met(uint32_t warp) {
        for (const auto &[key, group] : pending[warp].groups) {
            Wavefronts &total = sites[key.first];
            ++total.accesses;
            total.conflicts += conflicts(group);
        }
        pending[warp] = {};
    }

    // All threads of the block are done.
    void block_is_done() {
        while (!pending.empty()) {
            met(pending.begin()->first);
            pending.erase(pending.begin());
        }
    }

    std::map<Site, Wavefronts> sites;

  private:
    // The accesses of all lanes by one instruction.
    struct Group {
        uint32_t bytes;
        std::map<uint32_t, uintptr_t> addresses; // by lane
    };

    struct Pending {
        std::map<std::pair<Site, uint32_t>, uint32_t> times;
        std::map<std::pair<Site, uint32_t>, Group> groups;
    };

    static uint64_t conflicts(const Group &group) {
        const uint32_t lanes = 32 * 4 / std::max(group.bytes, 4u);
        uint64_t conflicts = 0;
        for (uint32_t first = 0; first < 32; first += lanes) {
            std::set<uintptr_t> words[32];
            for (auto lane = group.addresses.lower_bound(first); lane != group.addresses.lower_bound(first + lanes); ++lane) {
                for (uintptr_t word = lane->second / 4; word <= (lane->second + group.bytes - 1) / 4; ++word) words[word % 32].insert(word);
            }
            size_t most = 1;
            for (const auto &of_bank : words) most = std::max(most, of_bank.size());
            conflicts += most - 1;
        }
        return conflicts;
    }

    std::map<uint32_t, Pending> pending; // by warp
};

// Counts while a check sets it.
inline Banks *banks = nullptr;

} // namespace emulation
