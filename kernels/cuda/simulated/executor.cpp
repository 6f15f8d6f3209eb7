#include "executor.h"

#include "counts.h"
#include "memory.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <thread>

namespace simulated {

using Clock = std::chrono::steady_clock;

struct Queued {
    Work work;
    CUresult sticky;
    Clock::time_point at;
};

struct Stream {
    int device;
    bool blocking, ended = false;
    uint64_t queued = 0, done = 0;
    std::deque<Queued> queue;
};

namespace {
// Never destroyed: the thread may still run when the process ends.
struct Executor {
    std::mutex lock;
    // Notified when work is queued or waited for, and when work is done.
    std::condition_variable more, progress;
    std::deque<Stream> streams;
    Stream *legacy[MAX_DEVICES] = {};
    CUresult broken[MAX_DEVICES] = {};
    int waiting = 0;

    Executor() { std::thread(&Executor::run, this).detach(); }
    void run();
    Stream *choose(std::unique_lock<std::mutex> &guard);
    bool is_ready(const Stream &stream) const;
    void do_first(Stream &stream, std::unique_lock<std::mutex> &guard);
    CUresult wait(std::unique_lock<std::mutex> &guard, const std::function<bool()> &over, int device);
};

Executor &executor() {
    static Executor &executor = *new Executor;
    return executor;
}

bool Executor::is_ready(const Stream &stream) const {
    if (stream.queue.empty()) return false;
    for (const Ticket &ticket : stream.queue.front().work.after) {
        if (ticket.stream->done < ticket.number) return false;
    }
    return true;
}

// A random stream whose next work may run; waits where the order requires it.
Stream *Executor::choose(std::unique_lock<std::mutex> &guard) {
    constexpr auto LATEST = std::chrono::milliseconds(30);
    for (;;) {
        std::vector<Stream *> ready;
        Clock::time_point oldest = Clock::time_point::max();
        for (Stream &stream : streams) {
            if (!is_ready(stream)) continue;
            ready.push_back(&stream);
            oldest = std::min(oldest, stream.queue.front().at);
        }
        if (ready.empty()) {
            more.wait(guard);
        } else if (settings().order == Order::Late && !waiting && Clock::now() < oldest + LATEST) {
            more.wait_until(guard, oldest + LATEST);
        } else {
            return ready[random_below(uint32_t(ready.size()))];
        }
    }
}

void Executor::do_first(Stream &stream, std::unique_lock<std::mutex> &guard) {
    Queued &first = stream.queue.front();
    const bool pause = settings().order == Order::Soon && random_below(8) == 0;
    const uint32_t microseconds = pause ? random_below(300) : 0;
    if (first.sticky != CUDA_SUCCESS && broken[stream.device] == CUDA_SUCCESS) broken[stream.device] = first.sticky;
    if (broken[stream.device] == CUDA_SUCCESS) {
        guard.unlock();
        if (pause) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
        if (settings().verbose) fprintf(stderr, "simulated device: runs %s\n", first.work.name.c_str());
        running = first.work.name.c_str();
        first.work.run();
        running = nullptr;
        guard.lock();
    }
    stream.queue.pop_front();
    ++stream.done;
    progress.notify_all();
}

void Executor::run() {
    // A fault inside of a kernel is on the stack of one of its threads; the handler needs a place of its own.
    static char handler_stack[64 << 10];
    stack_t stack = {};
    stack.ss_sp = handler_stack;
    stack.ss_size = sizeof handler_stack;
    sigaltstack(&stack, nullptr);
    pthread_setname_np(pthread_self(), "simulated-gpu");
    std::unique_lock<std::mutex> guard(lock);
    for (;;) {
        Stream &stream = *choose(guard);
        do_first(stream, guard);
    }
}

CUresult Executor::wait(std::unique_lock<std::mutex> &guard, const std::function<bool()> &over, int device) {
    ++waiting;
    more.notify_all();
    progress.wait(guard, over);
    --waiting;
    return broken[device];
}

Stream *add(Executor &e, int device, bool blocking) {
    e.streams.push_back({device, blocking});
    return &e.streams.back();
}
} // namespace

Stream *new_stream(int device, bool blocking) {
    const std::lock_guard<std::mutex> guard(executor().lock);
    return add(executor(), device, blocking);
}

Stream *legacy_stream(int device) {
    Executor &e = executor();
    const std::lock_guard<std::mutex> guard(e.lock);
    if (!e.legacy[device]) e.legacy[device] = add(e, device, false);
    return e.legacy[device];
}

void end_stream(Stream *stream) {
    const std::lock_guard<std::mutex> guard(executor().lock);
    if (stream->ended) fail("cuStreamDestroy: the stream was destroyed before");
    stream->ended = true;
}

int device_of(const Stream *stream) { return stream->device; }

Ticket enqueue(Stream *stream, Work work, CUresult sticky) {
    Executor &e = executor();
    std::unique_lock<std::mutex> guard(e.lock);
    if (stream->ended) fail("%s: the stream is destroyed", work.name.c_str());
    if (settings().does_nothing) return {stream, stream->queued};
    Stream *legacy = e.legacy[stream->device];
    if (stream == legacy) {
        for (Stream &other : e.streams) {
            if (other.device == stream->device && other.blocking) work.after.push_back({&other, other.queued});
        }
    } else if (stream->blocking && legacy) {
        work.after.push_back({legacy, legacy->queued});
    }
    stream->queue.push_back({std::move(work), sticky, Clock::now()});
    const Ticket ticket = {stream, ++stream->queued};
    count_queue(stream->queue.size());
    e.more.notify_all();
    if (settings().order == Order::AtOnce) e.wait(guard, [&] { return stream->done >= ticket.number; }, stream->device);
    return ticket;
}

Ticket last(Stream *stream) {
    const std::lock_guard<std::mutex> guard(executor().lock);
    return {stream, stream->queued};
}

bool is_done(const Ticket &ticket) {
    const std::lock_guard<std::mutex> guard(executor().lock);
    return ticket.stream->done >= ticket.number;
}

CUresult wait_for(const Ticket &ticket) {
    Executor &e = executor();
    std::unique_lock<std::mutex> guard(e.lock);
    return e.wait(guard, [&] { return ticket.stream->done >= ticket.number; }, ticket.stream->device);
}

CUresult wait_for_device(int device) {
    Executor &e = executor();
    std::unique_lock<std::mutex> guard(e.lock);
    const auto idle = [&] {
        for (const Stream &stream : e.streams) {
            if (stream.device == device && stream.done < stream.queued) return false;
        }
        return true;
    };
    return e.wait(guard, idle, device);
}

CUresult state(int device) {
    const std::lock_guard<std::mutex> guard(executor().lock);
    return executor().broken[device];
}

} // namespace simulated
