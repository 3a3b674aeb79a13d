#include "tests/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "ps/base/check.h"
#include "tests/cuda_emulation/sanitizer.h"

#ifdef __x86_64__
// Saves what a called function must keep, then goes on with another stack. The C library's
// swapcontext would do, but the sanitizer clears a whole stack's marks at each of its calls.
extern "C" void ps_cuda_emulation_switch(void** save, void* load);
asm(R"(
  .text
  .type ps_cuda_emulation_switch, @function
ps_cuda_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size ps_cuda_emulation_switch, .-ps_cuda_emulation_switch
)");
#else
#include <ucontext.h>
#endif

namespace ps::cuda_emulation {
namespace {

// Large enough for the sanitizer's report of a fault on it.
constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kGuardBytes = 4 << 10;

#ifdef __x86_64__
struct Registers {
  void Begin(std::byte* stack, void (*entry)()) {
    // As if entry had been called: its return address is none, the six registers are zero.
    auto* top = reinterpret_cast<uintptr_t*>(stack + kStackBytes);
    *--top = 0;
    *--top = reinterpret_cast<uintptr_t>(entry);
    for (int i = 0; i < 6; ++i) {
      *--top = 0;
    }
    stack_pointer = top;
  }

  void SwitchTo(Registers* other) {
    ps_cuda_emulation_switch(&stack_pointer, other->stack_pointer);
  }

  void* stack_pointer = nullptr;
};
#else
struct Registers {
  void Begin(std::byte* stack, void (*entry)()) {
    PS_CHECK(getcontext(&context) == 0);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = kStackBytes;
    makecontext(&context, entry, 0);
  }

  void SwitchTo(Registers* other) { PS_CHECK(swapcontext(&context, &other->context) == 0); }

  ucontext_t context{};
};
#endif

void BeforeSwitch(void** kept, const void* stack, size_t size) {
#ifdef PS_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(kept, stack, size);
#else
  static_cast<void>(kept);
  static_cast<void>(stack);
  static_cast<void>(size);
#endif
}

void AfterSwitch(void* kept, const void** from_stack, size_t* from_size) {
#ifdef PS_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(kept, from_stack, from_size);
#else
  static_cast<void>(kept);
  static_cast<void>(from_stack);
  static_cast<void>(from_size);
#endif
}

/// Frames that were never left have marks of the sanitizer around their variables.
void ForgetFrames(std::byte* stack) {
#ifdef PS_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(stack, kStackBytes);
#else
  static_cast<void>(stack);
#endif
}

/// The stack that Resume was called on.
struct Caller {
  Registers registers;
  const void* stack = nullptr;
  size_t size = 0;
  void* kept = nullptr;
};

Caller caller;

}  // namespace

struct Fiber::Context {
  std::byte* memory = nullptr;  // the guard, then the stack
  const std::function<void()>* body = nullptr;
  Registers registers;
  void* kept = nullptr;
  bool is_done = true;

  std::byte* stack() const { return memory + kGuardBytes; }

  void Leave() {
    BeforeSwitch(is_done ? nullptr : &kept, caller.stack, caller.size);
    registers.SwitchTo(&caller.registers);
    AfterSwitch(kept, &caller.stack, &caller.size);
  }

  static Context* running;
};

Fiber::Context* Fiber::Context::running = nullptr;

Fiber::Fiber() : context_(std::make_unique<Context>()) {
  void* memory = mmap(
      nullptr,
      kGuardBytes + kStackBytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1,
      0);
  PS_CHECK(memory != MAP_FAILED);
  PS_CHECK(mprotect(memory, kGuardBytes, PROT_NONE) == 0);
  context_->memory = static_cast<std::byte*>(memory);
}

Fiber::~Fiber() {
  ForgetFrames(context_->stack());
  munmap(context_->memory, kGuardBytes + kStackBytes);
}

void Fiber::Start(const std::function<void()>* body) {
  if (!context_->is_done) {
    ForgetFrames(context_->stack());
  }
  context_->body = body;
  context_->is_done = false;
  context_->kept = nullptr;
  context_->registers.Begin(context_->stack(), &Fiber::Run);
}

void Fiber::Run() {
  AfterSwitch(nullptr, &caller.stack, &caller.size);
  Context* self = Context::running;
  (*self->body)();
  self->is_done = true;
  self->Leave();
}

bool Fiber::Resume() {
  PS_CHECK(!context_->is_done);
  Context::running = context_.get();
  BeforeSwitch(&caller.kept, context_->stack(), kStackBytes);
  caller.registers.SwitchTo(&context_->registers);
  AfterSwitch(caller.kept, nullptr, nullptr);
  return !context_->is_done;
}

void Fiber::Pause() {
  Context::running->Leave();
}

}  // namespace ps::cuda_emulation
