// Coroutines: a stack for each thread of a block, and the switch between stacks.
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
// Saves the callee-saved registers, stores the stack pointer in `*from` and resumes where `to` was left. Far faster than
// `swapcontext`, which makes a system call for the signal mask.
__attribute__((naked, noinline)) static void switch_stack(void **from, void *to) {
    asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}
#endif

// One stack. It begins with `entry`, which never returns; control alternates between it and the stack that enters it.
class Coroutine {
  public:
    void prepare(void (*entry)()) {
        if (!stack) stack.reset(new char[STACK_BYTES]);
#if defined(__x86_64__)
        // Six registers, the return address for `ret`, and padding so that the stack is aligned as if `entry` had been called.
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
