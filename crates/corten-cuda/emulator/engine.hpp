// Runs the blocks of a launch one after another. A thread that waits at a barrier or in a warp collective keeps
// its fiber; one that returns gives it to the next thread, so a kernel without either is a plain loop on one.
#pragma once
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "abi.hpp"

namespace cusim {
constexpr int kPoisonAllocated = 0xEE, kPoisonFreed = 0xDD, kCanary = 0xC5;
constexpr int kIllegalAddress = 700, kLaunchFailed = 719;

struct Random {  // xorshift64*
  u64 state = 1;
  u64 operator()() {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull >> 11;
  }
  u64 below(u64 n) { return (*this)() % n; }
};

#ifdef __x86_64__
struct Context { void *stack_pointer; };
extern "C" void cusim_switch(void **from, void *to);
asm(R"(
.text
cusim_switch:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
)");
static void switch_context(Context &from, Context &to) { cusim_switch(&from.stack_pointer, to.stack_pointer); }
static void make_context(Context &made, char *stack, size_t bytes, void (*entry)()) {
  void **top = (void **)(stack + bytes);
  top[-1] = nullptr, top[-2] = (void *)entry;  // six registers below, as cusim_switch pops them
  made.stack_pointer = top - 8;
}
#else
#include <ucontext.h>
using Context = ucontext_t;
static void switch_context(Context &from, Context &to) { swapcontext(&from, &to); }
static void make_context(Context &made, char *stack, size_t bytes, void (*entry)()) {
  getcontext(&made);
  made.uc_stack.ss_sp = stack, made.uc_stack.ss_size = bytes, made.uc_link = nullptr;
  ::makecontext(&made, entry, 0);
}
#endif

struct Launch {
  const Symbol *symbol;
  const Builtins *builtins;
  void *library;          // for dlinfo
  size_t static_shared;   // bytes of the module's thread-local segment
  size_t dynamic_shared;
  unsigned grid[3], block[3];
  void **params;
};

class Runner {
 public:
  Random random;
  std::string error;

  // 0, or the error that the launch leaves in its context; `error` then says what happened.
  int run(const Launch &of) {
    launch_ = &of;
    threads_ = of.block[0] * of.block[1] * of.block[2];
    u64 blocks = (u64)of.grid[0] * of.grid[1] * of.grid[2], stride = 1 + random.below(blocks);
    while (std::gcd(stride, blocks) != 1) stride++;
    prepare();
    error.clear();
    if (int signal = sigsetjmp(fault_, 1)) {
      active = nullptr;
      char text[80];
      snprintf(text, sizeof text, signal == SIGFPE ? "integer division by zero" : "access to address %p", fault_address);
      error = text;
      return signal == SIGFPE ? kLaunchFailed : kIllegalAddress;
    }
    active = this;
    for (u64 i = 0, at = random.below(blocks); i < blocks && error.empty(); i++, at = (at + stride) % blocks) run_block(at);
    active = nullptr;
    return error.empty() ? 0 : kLaunchFailed;
  }

  static bool faulted(int signal, void *address) {  // from the signal handler: leaves the launch
    if (!active) return false;
    active->fault_address = address;
    siglongjmp(active->fault_, signal);
  }

 private:
  struct Fiber { Context context; char *stack; int thread; };
  struct Thread { unsigned index[3]; unsigned mask; int fiber, lane; u64 value, result; };
  struct Warp { unsigned live, arrived; };
  static constexpr size_t kStack = 128 << 10, kPage = 4096;
  static inline Runner *self = nullptr;
  static inline thread_local Runner *active = nullptr;
  static const Engine engine_;

  const Launch *launch_;
  unsigned threads_, started_, returned_;
  int current_, fibers_used_, barrier_line_;
  u64 barrier_count_, barrier_result_;
  std::vector<unsigned> order_;
  std::vector<Thread> thread_;
  std::vector<Warp> warp_;
  std::vector<Fiber> fiber_;
  std::vector<int> runnable_, at_barrier_;
  std::vector<u64> dynamic_;
  char *static_;
  Context main_;
  sigjmp_buf fault_;
  void *fault_address;

  void prepare() {
    const Builtins &b = *launch_->builtins;
    self = this;
    *b.engine = &engine_;
    order_.resize(threads_), thread_.resize(threads_), warp_.resize((threads_ + 31) / 32);
    for (unsigned t = 0, x = launch_->block[0], y = launch_->block[1]; t < threads_; t++) {
      thread_[t].index[0] = t % x, thread_[t].index[1] = t / x % y, thread_[t].index[2] = t / x / y;
      order_[t] = t;
      std::swap(order_[t], order_[random.below(t + 1)]);
    }
    for (int i = 0; i < 3; i++) b.block_dim[i] = launch_->block[i], b.grid_dim[i] = launch_->grid[i];
    dynamic_.resize(launch_->dynamic_shared / 8 + 16);
    *b.dynamic_shared = (void *)(((uintptr_t)dynamic_.data() + 15) & ~15);
    b.touch_shared();
    if (launch_->static_shared) dlinfo(launch_->library, RTLD_DI_TLS_DATA, &static_);
    stack_t own;
    sigaltstack(nullptr, &own);
    if (own.ss_flags & SS_DISABLE) {  // a fault on a full stack needs another one
      static thread_local char alternate[64 << 10];
      own = {alternate, 0, sizeof alternate};
      sigaltstack(&own, nullptr);
    }
  }

  void run_block(u64 at) {
    const Launch &of = *launch_;
    unsigned *index = of.builtins->block_idx;
    index[0] = at % of.grid[0], index[1] = at / of.grid[0] % of.grid[1], index[2] = at / of.grid[0] / of.grid[1];
    char *dynamic = (char *)*of.builtins->dynamic_shared;
    if (of.static_shared) memset(static_, kPoisonAllocated, of.static_shared);
    memset(dynamic, kPoisonAllocated, of.dynamic_shared);
    memset(dynamic + of.dynamic_shared, kCanary, 64);
    for (unsigned w = 0; w < warp_.size(); w++) warp_[w] = {~0u >> (threads_ - 32 * w < 32 ? 32 * (w + 1) - threads_ : 0), 0};
    started_ = returned_ = fibers_used_ = 0;
    runnable_.clear(), at_barrier_.clear();
    current_ = new_fiber();
    switch_context(main_, fiber_[current_].context);
    for (int i = 0; i < 64; i++)
      if ((unsigned char)dynamic[of.dynamic_shared + i] != kCanary) error = "write past the end of dynamic shared memory";
  }

  int new_fiber() {
    if (fibers_used_ == (int)fiber_.size()) {
      char *pages = (char *)mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      mprotect(pages, kPage, PROT_NONE);
      fiber_.push_back({{}, pages + kPage, -1});
    }
    Fiber &made = fiber_[fibers_used_];
    made.thread = -1;
    make_context(made.context, made.stack, kStack, [] {
      self->launch_->symbol->run(self->launch_->params);
      if (self->returned_ == self->threads_) self->leave(self->main_);
      self->reschedule();
    });
    return fibers_used_++;
  }

  void leave(Context &to) { switch_context(fiber_[current_].context, to); }

  void trap(const char *reason) {
    const unsigned *b = launch_->builtins->block_idx;
    char text[300];
    snprintf(text, sizeof text, "%s, block (%u, %u, %u)", reason, b[0], b[1], b[2]);
    error = text;
    leave(main_);
  }

  // Suspends the current fiber for a random one that can run, or for the block's next thread.
  void reschedule() {
    int from = current_;
    if (started_ < threads_ && (runnable_.empty() || random() & 1)) {
      current_ = new_fiber();
    } else if (!runnable_.empty()) {
      std::swap(runnable_[random.below(runnable_.size())], runnable_.back());
      current_ = runnable_.back();
      runnable_.pop_back();
      show_index();
    } else {
      trap("divergent barrier or warp collective: every thread waits");
    }
    switch_context(fiber_[from].context, fiber_[current_].context);
  }

  void show_index() {
    memcpy(launch_->builtins->thread_idx, thread_[fiber_[current_].thread].index, sizeof(unsigned[3]));
  }

  bool next_thread() {
    Fiber &fiber = fiber_[current_];
    if (fiber.thread >= 0) retire(fiber.thread);
    fiber.thread = -1;
    if (started_ == threads_) return false;
    fiber.thread = order_[started_++];
    thread_[fiber.thread].fiber = current_;
    show_index();
    return true;
  }

  void retire(int thread) {
    returned_++;
    if (!at_barrier_.empty()) trap_barrier("threads returned while others wait", barrier_line_);
    Warp &warp = warp_[thread / 32];
    warp.live &= ~(1u << (thread & 31));
    for (unsigned rest = warp.arrived; rest; rest &= rest - 1)
      if (warp.arrived & rest & -rest) complete(thread / 32, thread_[(thread & ~31) + __builtin_ctz(rest)].mask);
  }

  void trap_barrier(const char *what, int line) {
    char text[200];
    snprintf(text, sizeof text, "divergent barrier: %s at the __syncthreads of line %d", what, line);
    trap(text);
  }

  u64 barrier(int line, bool predicate) {
    if (returned_) trap_barrier("threads have returned before others arrive", line);
    if (at_barrier_.empty()) barrier_line_ = line, barrier_count_ = 0;
    if (line != barrier_line_) trap_barrier("threads wait at another one while others arrive", line);
    barrier_count_ += predicate;
    if (at_barrier_.size() + 1 == threads_) {
      runnable_.insert(runnable_.end(), at_barrier_.begin(), at_barrier_.end());
      at_barrier_.clear();
      return barrier_result_ = barrier_count_;
    }
    at_barrier_.push_back(current_);
    reschedule();
    return barrier_result_;
  }

  u64 collective(unsigned mask, u64 value, int lane) {
    int id = fiber_[current_].thread;
    Thread &mine = thread_[id];
    if (!(mask >> (id & 31) & 1)) trap("a lane outside the mask calls a warp collective");
    mine.mask = mask, mine.value = value, mine.lane = lane;
    warp_[id / 32].arrived |= 1u << (id & 31);
    if (!complete(id / 32, mask)) reschedule();
    return mine.result;
  }

  // Lanes that have returned take no part; what is read from them is poison.
  bool complete(int warp, unsigned mask) {
    Warp &w = warp_[warp];
    Thread *lanes = &thread_[warp * 32];
    unsigned need = mask & w.live, ballot = 0;
    if ((w.arrived & need) != need) return false;
    for (unsigned rest = need; rest; rest &= rest - 1) {
      int i = __builtin_ctz(rest);
      if (lanes[i].mask != mask) return false;
      ballot |= unsigned(lanes[i].value != 0) << i;
    }
    w.arrived &= ~need;
    for (unsigned rest = need; rest; rest &= rest - 1) {
      Thread &to = lanes[__builtin_ctz(rest)];
      if (to.lane < 0) to.result = ballot;
      else if (need >> (to.lane & 31) & 1) to.result = lanes[to.lane & 31].value;
      else memset(&to.result, kPoisonAllocated, sizeof to.result);
      if (to.fiber != current_) runnable_.push_back(to.fiber);
    }
    return true;
  }
};

inline const Engine Runner::engine_ = {
    [] { return self->next_thread(); },
    [](int line, bool predicate) { return self->barrier(line, predicate); },
    [](unsigned mask, u64 value, int lane) { return self->collective(mask, value, lane); },
    [] { return self->warp_[self->fiber_[self->current_].thread / 32].live; },
    [](const char *reason) { self->trap(reason); },
};
}  // namespace cusim
