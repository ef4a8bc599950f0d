// Runs the blocks of a launch one after another. A thread that waits at a barrier or in a warp collective keeps
// its fiber; one that returns gives it to the next thread, so a kernel without either is a plain loop on one.
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi.hpp"

namespace cusim {
constexpr int kPoisonAllocated = 0xEE, kPoisonFreed = 0xDD, kCanary = 0xC5, kIllegalAddress = 700, kMisaligned = 716, kLaunchFailed = 719;
constexpr size_t kPage = 4096;

struct Random {  // xorshift64*
  u64 state = 1;
  u64 operator()() {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull >> 11;
  }
  u64 below(u64 n) { return (unsigned __int128)((*this)() << 11) * n >> 64; }
};

// Saves the registers that a call preserves on the stack of `from` and continues on the stack `to`.
extern "C" void cusim_switch(void **from, void *to);
asm(R"(.text
cusim_switch:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  pop %rcx; jmp *%rcx)");  // `ret` would be mispredicted

struct Launch {
  const Symbol *symbol;
  const Builtins *builtins;
  void *library;  // for dlinfo
  size_t static_shared, dynamic_shared;
  unsigned grid[3], block[3];
  void **params;
};

class Runner {
 public:
  Random random;
  std::string error;
  bool (*is_global)(const void *) = nullptr;

  // 0, or the error that the launch leaves in its context; `error` then says what happened.
  int run(const Launch &of) {
    launch_ = &of, threads_ = of.block[0] * of.block[1] * of.block[2];
    u64 blocks = (u64)of.grid[0] * of.grid[1] * of.grid[2], stride = 1 + random.below(blocks);
    while (std::gcd(stride, blocks) != 1) stride++;
    prepare();
    error.clear(), touched_.clear();
    if (int signal = sigsetjmp(fault_, 1)) {
      active = nullptr;
      char text[80];
      snprintf(text, sizeof text, signal == SIGFPE ? "integer division by zero" : signal == SIGILL ?
               "misaligned address, or index outside an array" : "access to address %p", address_);
      return error = text, signal == SIGFPE ? kLaunchFailed : signal == SIGILL ? kMisaligned : kIllegalAddress;
    }
    active = this;
    for (u64 i = 0, at = random.below(blocks); i < blocks && error.empty(); i++, at = (at + stride) % blocks) run_block(at);
    active = nullptr;
    return error.empty() ? 0 : kLaunchFailed;
  }
  static bool faulted(int signal, void *address) {  // in the handler of a signal: leaves the launch
    if (!active) return false;
    active->address_ = address;
    siglongjmp(active->fault_, signal);
  }

 private:
  struct Index { unsigned x, y, z, thread; };
  struct Fiber { void *stack_pointer; char *stack; Index index; };
  struct Thread { unsigned mask; int fiber, lane; u64 value, result; };
  struct Warp { unsigned live, arrived; };
  struct Touched { u64 writer, reader; };  // blocks, counted from 1; all bits for several
  static constexpr size_t kStack = 128 << 10, kStagger = 32 << 10;  // tops of stacks lie in different cache sets
  static inline Runner *self = nullptr;
  static inline thread_local Runner *active = nullptr;
  static const Engine engine_;

  const Launch *launch_;
  unsigned threads_, started_, returned_;
  int current_, fibers_used_, barrier_line_;
  u64 block_;
  std::unordered_map<const char *, Touched> touched_;
  u64 barrier_count_, barrier_result_;
  std::vector<Index> order_;  // in which threads start
  std::vector<Thread> thread_;
  std::vector<Warp> warp_;
  std::vector<Fiber> fiber_;
  std::vector<int> runnable_, at_barrier_;
  char *static_, *dynamic_ = guarded(256 << 10);
  void *main_, *address_;
  sigjmp_buf fault_;

  static char *guarded(size_t bytes) {  // memory between inaccessible pages
    char *pages = (char *)mmap(nullptr, bytes + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(pages + kPage, bytes, PROT_READ | PROT_WRITE);
    return pages + kPage;
  }

  void prepare() {
    const Builtins &b = *launch_->builtins;
    self = this, *b.engine = &engine_;
    order_.resize(threads_), thread_.resize(threads_), warp_.resize((threads_ + 31) / 32);
    for (unsigned t = 0, x = launch_->block[0], y = launch_->block[1]; t < threads_; t++) {
      unsigned at = random.below(t + 1);
      order_[t] = order_[at], order_[at] = {t % x, t / x % y, t / x / y, t};
    }
    memcpy(b.block_dim, launch_->block, sizeof launch_->block), memcpy(b.grid_dim, launch_->grid, sizeof launch_->grid);
    *b.dynamic_shared = dynamic_;
    b.touch_shared();
    if (launch_->static_shared) dlinfo(launch_->library, RTLD_DI_TLS_DATA, &static_);
    static thread_local char alternate[64 << 10];  // a fault on a full stack is handled on another one
    stack_t now, own = {alternate, 0, sizeof alternate};
    if (sigaltstack(nullptr, &now); now.ss_flags & SS_DISABLE) sigaltstack(&own, nullptr);
  }

  // A race of blocks: both touch a byte of global memory and one of them writes, not by an atomic.
  void access(const char *at, int bytes, bool write) {
    if (!is_global || !is_global(at)) return;
    for (const char *end = at + bytes; at < end; at++) {
      Touched &byte = touched_[at];
      bool raced = byte.writer && byte.writer != block_;
      raced |= write && byte.reader && byte.reader != block_;
      if (raced) trap("race of blocks, which " + std::string(write ? "write" : "read and write") + " the same address");
      u64 &by = write ? byte.writer : byte.reader;
      by = by && by != block_ ? ~0ull : block_;
    }
  }

  void run_block(u64 at) {
    const Launch &of = *launch_;
    block_ = at + 1;
    unsigned *index = of.builtins->block_idx;
    index[0] = at % of.grid[0], index[1] = at / of.grid[0] % of.grid[1], index[2] = at / of.grid[0] / of.grid[1];
    if (of.static_shared) memset(static_, kPoisonAllocated, of.static_shared);
    memset(dynamic_, kPoisonAllocated, of.dynamic_shared);
    memset(dynamic_ + of.dynamic_shared, kCanary, 64);
    for (unsigned w = 0; w < warp_.size(); w++)
      warp_[w] = {~0u >> (32 * (w + 1) > threads_ ? 32 * (w + 1) - threads_ : 0), 0};
    started_ = returned_ = fibers_used_ = 0;
    runnable_.clear(), at_barrier_.clear();
    cusim_switch(&main_, fiber_[current_ = new_fiber()].stack_pointer);
    for (int i = 0; i < 64; i++)
      if ((unsigned char)dynamic_[of.dynamic_shared + i] != kCanary) error = "write past the end of dynamic shared memory";
  }

  int new_fiber() {
    if (fibers_used_ == (int)fiber_.size()) fiber_.push_back({nullptr, guarded(kStack), {}});
    Fiber &made = fiber_[fibers_used_];
    void **top = (void **)(made.stack + kStack - fibers_used_ * 576 % kStagger);
    void (*entry)() = [] {
      self->launch_->symbol->run(self->launch_->params);
      self->returned_ == self->threads_ ? self->finish() : self->reschedule();
    };
    top[-2] = (void *)entry;  // above six registers, as cusim_switch pops them
    made.stack_pointer = top - 8, made.index.thread = ~0u;
    return fibers_used_++;
  }

  void finish() { cusim_switch(&fiber_[current_].stack_pointer, main_); }
  void trap(const std::string &reason) {
    const unsigned *b = launch_->builtins->block_idx;
    char text[400];
    snprintf(text, sizeof text, "%s, block (%u, %u, %u)", reason.c_str(), b[0], b[1], b[2]);
    error = text;
    finish();
  }
  void trap_barrier(const char *what, int line) {
    trap("divergent barrier: " + std::string(what) + " at the __syncthreads of line " + std::to_string(line));
  }

  // Suspends the current fiber for a random one that can run, or for the block's next thread.
  void reschedule() {
    int from = current_;
    if (started_ < threads_ && (runnable_.empty() || random() & 1)) {
      current_ = new_fiber();
    } else if (!runnable_.empty()) {
      std::swap(runnable_[random.below(runnable_.size())], runnable_.back());
      current_ = runnable_.back(), runnable_.pop_back();
      show_index();
    } else {
      trap("divergent barrier or warp collective: every thread waits");
    }
    cusim_switch(&fiber_[from].stack_pointer, fiber_[current_].stack_pointer);
  }
  void show_index() { memcpy(launch_->builtins->thread_idx, &fiber_[current_].index, sizeof(unsigned[3])); }

  bool next_thread() {
    Fiber &fiber = fiber_[current_];
    if (fiber.index.thread != ~0u) retire(fiber.index.thread);
    fiber.index.thread = ~0u;
    if (started_ == threads_) return false;
    fiber.index = order_[started_++];
    return show_index(), true;
  }
  void retire(unsigned thread) {
    returned_++;
    if (!at_barrier_.empty()) trap_barrier("threads returned while others wait", barrier_line_);
    Warp &warp = warp_[thread / 32];
    warp.live &= ~(1u << (thread & 31));
    for (unsigned rest = warp.arrived; rest; rest &= rest - 1)
      if (warp.arrived & rest & -rest) complete(thread / 32, thread_[(thread & ~31) + __builtin_ctz(rest)].mask);
  }

  u64 barrier(int line, bool predicate) {
    if (returned_) trap_barrier("threads have returned before others arrive", line);
    if (at_barrier_.empty()) barrier_line_ = line, barrier_count_ = 0;
    if (line != barrier_line_) trap_barrier("threads wait at another one while others arrive", line);
    barrier_count_ += predicate;
    if (at_barrier_.size() + 1 < threads_) {
      at_barrier_.push_back(current_);
      return reschedule(), barrier_result_;
    }
    runnable_.insert(runnable_.end(), at_barrier_.begin(), at_barrier_.end());
    at_barrier_.clear();
    return barrier_result_ = barrier_count_;
  }

  u64 collective(unsigned mask, u64 value, int lane) {
    unsigned id = fiber_[current_].index.thread;
    Thread &mine = thread_[id];
    if (!(mask >> (id & 31) & 1)) trap("a lane outside the mask calls a warp collective");
    mine = {mask, current_, lane, value, 0};
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
      memset(&to.result, kPoisonAllocated, sizeof to.result);
      if (to.lane < 0) to.result = ballot;
      else if (need >> (to.lane & 31) & 1) to.result = lanes[to.lane & 31].value;
      if (to.fiber != current_) runnable_.push_back(to.fiber);
    }
    return true;
  }
};
inline const Engine Runner::engine_ = {
    [] { return self->next_thread(); },
    [](int line, bool predicate) { return self->barrier(line, predicate); },
    [](unsigned mask, u64 value, int lane) { return self->collective(mask, value, lane); },
    [] { return self->warp_[self->fiber_[self->current_].index.thread / 32].live; },
    [](const char *reason) { self->trap(reason); },
    [](const void *at, int bytes, bool write) { self->access((const char *)at, bytes, write); },
};
}  // namespace cusim
