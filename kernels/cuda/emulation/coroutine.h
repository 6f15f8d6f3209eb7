// A stack of its own for each thread of a block, and the switch between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulation {

constexpr size_t STACK_BYTES = 128 << 10;

#if defined(__x86_64__)
// Keeps what a called function must keep, leaves the stack's pointer in `*from` and goes on where `to` was left. Far faster than
// `swapcontext`, which asks the system to set the signals' mask.
__attribute__((naked, noinline)) static void switch_stack(void **from, void *to) {
    asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}
#endif

// One stack: begins with `entry`, which never returns, and is left and entered in turns with the one that enters it.
class Coroutine {
  public:
    void prepare(void (*entry)()) {
        if (!stack) stack.reset(new char[STACK_BYTES]);
#if defined(__x86_64__)
        // Six registers, the address that `ret` takes, and room so that `entry` finds the stack as if it had been called.
        uintptr_t top = (reinterpret_cast<uintptr_t>(stack.get()) + STACK_BYTES) & ~uintptr_t(15);
        void **slots = reinterpret_cast<void **>(top) - 8;
        for (int i = 0; i < 6; ++i) slots[i] = nullptr;
        slots[6] = reinterpret_cast<void *>(entry);
        place = slots;
#else
        getcontext(&place);
        place.uc_stack.ss_sp = stack.get();
        place.uc_stack.ss_size = STACK_BYTES;
        place.uc_link = nullptr;
        makecontext(&place, entry, 0);
#endif
    }
#if defined(__x86_64__)
    void enter() { switch_stack(&outside, place); }
    void leave() { switch_stack(&place, outside); }

  private:
    void *place = nullptr, *outside = nullptr;
#else
    void enter() { swapcontext(&outside, &place); }
    void leave() { swapcontext(&place, &outside); }

  private:
    ucontext_t place, outside;
#endif
    std::unique_ptr<char[]> stack;
};

} // namespace emulation
