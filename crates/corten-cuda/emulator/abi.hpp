// What a compiled module and the emulated driver know of each other; the text stands in both.
namespace cusim {
using u64 = unsigned long long;
struct Engine {  // what the driver offers to device code; threads of a block are fibers of one host thread
  bool (*next_thread)();                                  // makes the next thread of the block current
  u64 (*barrier)(int line, bool predicate);               // number of threads whose predicate holds
  u64 (*collective)(unsigned mask, u64 value, int lane);  // value of `lane`, or the ballot if lane < 0
  unsigned (*live_lanes)();                               // lanes of the warp that have not returned
  void (*trap)(const char *reason);                       // ends the launch with an error
  void (*access)(const void *at, int bytes, bool write);  // with CUSIM_RACES
};
struct Symbol {  // a kernel or a global variable, under the lowered name of its name expression
  const char *name;
  void (*run)(void **params);  // runs threads of the current block until none is left to start
  const u64 *sizes;            // of the parameters, closed by 0
  void *address;               // of a variable
  u64 bytes;
};
struct Builtins {
  unsigned *thread_idx, *block_idx, *block_dim, *grid_dim;  // x, y, z each
  void **dynamic_shared;
  const Engine **engine;
  void (*touch_shared)();  // makes the calling host thread's copy of the static shared variables exist
};
}  // namespace cusim
