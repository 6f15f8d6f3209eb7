#include "faults.h"

#include "settings.h"

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace simulated {

struct Scheduled {
    Point point;
    uint64_t number;
    CUresult error;
};

static const struct {
    const char *name;
    Point point;
} POINTS[] = {
    {"init", Point::Init}, {"count", Point::Count}, {"alloc", Point::Alloc}, {"copy", Point::Copy},
    {"launch", Point::Launch}, {"gemm", Point::Gemm}, {"synchronize", Point::Synchronize},
};

static const struct {
    const char *name;
    CUresult error;
} ERRORS[] = {
    {"out_of_memory", CUDA_ERROR_OUT_OF_MEMORY},
    {"no_device", CUDA_ERROR_NO_DEVICE},
    {"unknown", CUDA_ERROR_UNKNOWN}, // Also the error of a device that fell off the bus.
    {"system_driver_mismatch", CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
    {"device_unavailable", CUDA_ERROR_DEVICE_UNAVAILABLE},
    {"launch_out_of_resources", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
    {"illegal_address", CUDA_ERROR_ILLEGAL_ADDRESS},
    {"launch_failed", CUDA_ERROR_LAUNCH_FAILED},
    {"ecc_uncorrectable", CUDA_ERROR_ECC_UNCORRECTABLE},
    {"hardware_stack_error", CUDA_ERROR_HARDWARE_STACK_ERROR},
};

bool is_sticky(CUresult error) {
    return error == CUDA_ERROR_ILLEGAL_ADDRESS || error == CUDA_ERROR_LAUNCH_FAILED || error == CUDA_ERROR_ECC_UNCORRECTABLE ||
           error == CUDA_ERROR_HARDWARE_STACK_ERROR || error == CUDA_ERROR_UNKNOWN;
}

static Scheduled parse(const std::string &item) {
    Scheduled scheduled = {};
    const size_t at = item.find('@'), equals = item.find('=');
    bool point = false, error = false;
    for (const auto &known : POINTS) {
        if (item.compare(0, at, known.name) == 0) scheduled.point = known.point, point = true;
    }
    for (const auto &known : ERRORS) {
        if (equals != std::string::npos && item.substr(equals + 1) == known.name) scheduled.error = known.error, error = true;
    }
    if (at != std::string::npos) scheduled.number = strtoull(item.c_str() + at + 1, nullptr, 10);
    if (!point || !error || !scheduled.number) fail("a fault is written launch@37=illegal_address, not %s", item.c_str());
    return scheduled;
}

static std::vector<Scheduled> parse_list(std::istream &list) {
    std::vector<Scheduled> scheduled;
    for (std::string item; std::getline(list, item, ',');) {
        while (!item.empty() && isspace(item.back())) item.pop_back();
        if (!item.empty()) scheduled.push_back(parse(item));
    }
    return scheduled;
}

namespace {
struct Schedule {
    std::mutex lock;
    std::vector<Scheduled> scheduled;
    uint64_t counts[7] = {};
    const char *file = getenv("SIM_FAULTS_FILE");

    Schedule() {
        if (const char *list = getenv("SIM_FAULTS")) {
            std::istringstream stream(list);
            scheduled = parse_list(stream);
        }
    }

    void look_for_file() {
        struct stat status;
        if (!file || stat(file, &status) || status.st_size == 0) return;
        std::ifstream stream(file);
        scheduled = parse_list(stream);
        std::fill(std::begin(counts), std::end(counts), 0);
        file = nullptr;
    }
};
} // namespace

CUresult fault(Point point) {
    static Schedule &schedule = *new Schedule;
    const std::lock_guard<std::mutex> guard(schedule.lock);
    schedule.look_for_file();
    const uint64_t number = ++schedule.counts[int(point)];
    for (const Scheduled &one : schedule.scheduled) {
        if (one.point == point && one.number == number) return one.error;
    }
    return CUDA_SUCCESS;
}

} // namespace simulated
