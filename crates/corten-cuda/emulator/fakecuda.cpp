// A CUDA driver on host memory. Streams are queues that run in a random legal order, as late as a
// synchronization allows or whenever the seed says; settings are in the table of `setting`s below.
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "memory.hpp"

namespace cusim {
struct Device;
struct Stream;

struct Item {  // of a stream's queue
  Stream *stream;
  std::function<void()> work;
  std::vector<std::shared_ptr<Item>> after;
  bool started = false, done = false;
  u64 mark = 0;
  double finished = 0;  // in milliseconds
};
using ItemPtr = std::shared_ptr<Item>;

struct Graph {
  struct Node { std::function<void()> work; std::vector<size_t> after; };
  std::vector<Node> nodes;
};
using GraphPtr = std::shared_ptr<Graph>;

struct Capture {
  GraphPtr graph = std::make_shared<Graph>();
  Stream *origin;
  int mode;
  u64 id;
  bool invalid = false;
  std::thread::id thread = std::this_thread::get_id();
};
using CapturePtr = std::shared_ptr<Capture>;

struct Stream {
  Device *device;
  bool blocking;
  int priority;
  std::deque<ItemPtr> queue;
  ItemPtr last;
  CapturePtr capture;
  std::vector<size_t> frontier;  // nodes that the next captured one comes after
};

struct Event {
  Device *device;
  unsigned flags;
  ItemPtr item;
  CapturePtr capture;
  std::vector<size_t> frontier;
};

struct Device {  // and its primary context
  int ordinal;
  int retained = 0, sticky = 0;
  Stream legacy{this, true, 0}, per_thread{this, true, 0};
  std::set<Device *> peers;
};

struct Function;
struct Module {
  Device *device;
  void *library;
  Builtins *builtins;
  size_t static_shared;
  std::map<std::string, std::unique_ptr<Function>> functions;
};
struct Function { Module *module; Symbol *symbol; int max_dynamic_shared = 48 << 10; };
struct Handle { int device, file; size_t bytes; };          // of physical memory
struct Injection { int at, error, calls = 0; };

struct Driver {
  std::mutex mutex;
  std::condition_variable_any finished;  // a host function ran without the lock
  bool initialized = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::set<Stream *> streams;
  std::set<void *> handles;  // live events, modules, functions, graphs and memory handles
  std::map<void *, GraphPtr> graphs;
  std::set<CapturePtr> captures;
  std::map<std::string, Injection> injections;
  Memory memory;
  Runner runner;
  Random random;
  u64 epoch = 0, serial = 0;
  int major = 9, minor = 0;
  struct sigaction previous[4];
};
static Driver &driver() {
  static Driver *made = new Driver;  // lives as long as the process: threads may outlive static objects
  return *made;
}
static thread_local Device *current;
static thread_local int capture_mode = 0;

static const int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE};
static void on_fault(int signal, siginfo_t *info, void *) {
  if (Runner::faulted(signal, info->si_addr)) return;
  Driver &d = driver();
  if (d.memory.arena(info->si_addr)) dprintf(2, "cusim: the host accesses device memory at %p\n", info->si_addr);
  for (int i = 0; i < 3; i++) if (kFaults[i] == signal) sigaction(signal, &d.previous[i], nullptr);
}

static u64 setting(const char *name, u64 otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, nullptr, 0) : otherwise;
}

// Every entry point begins with one: the lock, injected errors, and errors that stay.
struct Call {
  Driver &d = driver();
  std::unique_lock<std::mutex> lock{d.mutex};
  int error = 0;
  Call(const char *name, bool context = true) {
    if (!d.initialized) { error = 3; return; }
    if (auto it = d.injections.find(name); it != d.injections.end())
      if (++it->second.calls == it->second.at || it->second.at == 0) { error = it->second.error; return; }
    if (context && current) error = current->sticky;
    if (context && !current) error = 201;
  }
};
#define API(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)
#define ENTER(name) Call call(#name); [[maybe_unused]] Driver &d = call.d; if (call.error) return call.error
#define ENTER_ANY(name) Call call(#name, false); [[maybe_unused]] Driver &d = call.d; if (call.error) return call.error
#define REQUIRE(condition, error) if (!(condition)) return error

static Stream *stream_of(Driver &d, void *handle) {
  if (handle == nullptr || handle == (void *)1) return &current->legacy;
  if (handle == (void *)2) return &current->per_thread;
  return d.streams.count((Stream *)handle) ? (Stream *)handle : nullptr;
}
#define STREAM(variable, handle) \
  Stream *variable = stream_of(d, handle); REQUIRE(variable, 400)
#define EVENT(variable, handle) \
  REQUIRE(d.handles.count(handle), 400); Event *variable = (Event *)handle

// ---- Queues

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static void run_item(Driver &d, ItemPtr item) {
  item->started = true;
  if (!item->stream->device->sticky && item->work) {
    Memory::Access access(d.memory);
    item->work();
  }
  item->done = true, item->finished = now();
  item->after.clear(), item->work = nullptr;
  item->stream->queue.pop_front();
  d.finished.notify_all();
}

// Runs one item that may run, chosen at random; only a marked one if `mark` is given.
static bool step(Driver &d, u64 mark = 0) {
  std::vector<ItemPtr> ready;
  for (Stream *s : d.streams) {
    if (s->queue.empty()) continue;
    ItemPtr &head = s->queue.front();
    bool blocked = head->started || (mark && head->mark != mark);
    for (ItemPtr &before : head->after) blocked |= !before->done;
    if (!blocked) ready.push_back(head);
  }
  if (ready.empty()) return false;
  run_item(d, ready[d.random.below(ready.size())]);
  return true;
}

// Waits for items. Half of the time nothing runs but what they depend on, so that a missing dependency shows.
static int wait_for(Driver &d, std::vector<ItemPtr> targets) {
  u64 mark = d.random() & 1 ? ++d.epoch : 0;
  std::vector<Item *> open;
  for (ItemPtr &t : targets) open.push_back(t.get());
  while (mark && !open.empty()) {
    Item *item = open.back();
    open.pop_back();
    if (item->mark == mark) continue;
    item->mark = mark;
    for (ItemPtr &before : item->after) open.push_back(before.get());
  }
  for (ItemPtr &t : targets)
    while (!t->done)
      if (!step(d, mark)) d.finished.wait(d.mutex);
  return current ? current->sticky : 0;
}
static int wait_for_device(Driver &d, Device *device) {
  std::vector<ItemPtr> all;
  for (Stream *s : d.streams) if (s->device == device && s->last) all.push_back(s->last);
  return wait_for(d, all);
}

static int enqueue(Driver &d, Stream *s, std::function<void()> work, std::vector<ItemPtr> after = {}, ItemPtr *made = nullptr) {
  if (s->capture) {
    REQUIRE(!s->capture->invalid, 901);
    std::vector<Graph::Node> &nodes = s->capture->graph->nodes;
    nodes.push_back({work, s->frontier});
    s->frontier = {nodes.size() - 1};
    return 0;
  }
  for (const CapturePtr &c : d.captures)  // the legacy stream would depend on a stream that captures
    if (s == &s->device->legacy && c->origin->device == s->device && c->origin->blocking) return c->invalid = true, 906;
  auto item = std::make_shared<Item>();
  item->stream = s, item->work = std::move(work), item->after = std::move(after);
  auto add = [&](Stream &other) { if (other.last && !other.last->done) item->after.push_back(other.last); };
  add(*s);
  if (s == &s->device->legacy) {
    for (Stream *other : d.streams) if (other->device == s->device && other->blocking && other != s) add(*other);
  } else if (s->blocking) {
    add(s->device->legacy);
  }
  s->queue.push_back(item);
  s->last = item;
  if (made) *made = item;
  if (d.random.below(8) == 0) step(d);
  if (s->queue.size() > 512) wait_for(d, {s->queue[256]});
  return 0;
}

// Calls that might synchronize are prohibited while a capture that forbids them goes on.
static int prohibited(Driver &d) {
  int error = 0;
  for (const CapturePtr &c : d.captures) {
    bool own = c->thread == std::this_thread::get_id() && c->mode != 2;
    if (capture_mode == 2 || !(own || (capture_mode == 0 && c->mode == 0))) continue;
    c->invalid = true, error = 900;
  }
  return error;
}

// ---- Devices and contexts

API(cuInit, unsigned) {
  Driver &d = driver();
  std::lock_guard<std::mutex> lock(d.mutex);
  if (d.initialized) return 0;
  const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *compute = getenv("CUSIM_COMPUTE"), *fail = getenv("CUSIM_FAIL");
  int count = setting("CUSIM_DEVICES", 2);
  if (visible) {  // the list ends at the first ordinal that does not exist
    std::set<int> seen;
    for (const char *p = visible; *p >= '0' && *p <= '9' && atoi(p) < count; p = strchr(p, ',') ? strchr(p, ',') + 1 : "")
      seen.insert(atoi(p));
    count = seen.size();
  }
  REQUIRE(count, 100);
  if (compute) sscanf(compute, "%d.%d", &d.major, &d.minor);
  for (const char *p = fail; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : "") {
    char name[80];
    int at = 1, error = strncmp(p, "cuMemAlloc", 10) && strncmp(p, "cuMemHostAlloc", 14) ? 999 : 2;
    if (sscanf(p, "%79[^:,]:%d:%d", name, &at, &error)) d.injections[name] = {at, error};
  }
  d.random.state = d.runner.random.state = setting("CUSIM_SEED", 0) * 0x9E3779B97F4A7C15ull + 0x1234567;
  d.memory.strict = setting("CUSIM_STRICT", 0);
  for (int i = 0; i < count; i++) {
    d.devices.emplace_back(new Device{i});
    d.streams.insert({&d.devices[i]->legacy, &d.devices[i]->per_thread});
    d.memory.arenas.emplace_back(setting("CUSIM_MEM", 4ull << 30));
  }
  struct sigaction action = {};
  action.sa_sigaction = on_fault, action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < 3; i++) sigaction(kFaults[i], &action, &d.previous[i]);
  pthread_atfork(nullptr, nullptr, [] { driver().initialized = false, driver().devices.clear(); });
  d.initialized = true;
  return 0;
}
API(cuDriverGetVersion, int *version) { return *version = 13000, 0; }
API(cuDeviceGetCount, int *count) { ENTER_ANY(cuDeviceGetCount); return *count = d.devices.size(), 0; }
API(cuDeviceGet, int *device, int ordinal) {
  ENTER_ANY(cuDeviceGet);
  REQUIRE(ordinal >= 0 && ordinal < (int)d.devices.size(), 101);
  return *device = ordinal, 0;
}
#define DEVICE(name) ENTER_ANY(name); REQUIRE(device >= 0 && device < (int)d.devices.size(), 101)
API(cuDeviceGetName, char *name, int bytes, int device) {
  DEVICE(cuDeviceGetName);
  return snprintf(name, bytes, "Emulated NVIDIA GPU"), 0;
}
API(cuDeviceGetAttribute, int *value, int attribute, int device) {
  DEVICE(cuDeviceGetAttribute);
  static const std::map<int, int> values = {
      {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 48 << 10}, {9, 64 << 10},
      {10, 32}, {11, 2147483647}, {12, 65536}, {13, 1980000}, {14, 512}, {15, 1}, {16, 132}, {19, 1}, {31, 1}, {32, 1},
      {36, 2619000}, {37, 5120}, {38, 50 << 20}, {39, 2048}, {40, 3}, {41, 1}, {51, 32}, {78, 1}, {79, 1}, {80, 1},
      {81, 228 << 10}, {82, 65536}, {83, 1}, {87, 2}, {90, 1}, {97, 227 << 10}, {99, 1}, {102, 1}, {103, 1}, {106, 32},
      {111, 1024}, {125, 1}};
  if (attribute == 75 || attribute == 76) return *value = attribute == 75 ? d.major : d.minor, 0;
  if (attribute == 33) return *value = device + 1, 0;
  auto it = values.find(attribute);
  return *value = it == values.end() ? 0 : it->second, 0;
}
API(cuDeviceTotalMem_v2, size_t *bytes, int device) {
  DEVICE(cuDeviceTotalMem_v2);
  return *bytes = d.memory.arenas[device].limit, 0;
}
API(cuDeviceGetUuid_v2, char *uuid, int device) {
  DEVICE(cuDeviceGetUuid_v2);
  memcpy(uuid, "cusim emulated ", 15);
  return uuid[15] = device, 0;
}
API(cuDeviceGetPCIBusId, char *id, int bytes, int device) {
  DEVICE(cuDeviceGetPCIBusId);
  return snprintf(id, bytes, "0000:%02X:00.0", device + 1), 0;
}
API(cuDeviceCanAccessPeer, int *can, int device, int peer) {
  DEVICE(cuDeviceCanAccessPeer);
  return *can = device != peer, 0;
}
API(cuDevicePrimaryCtxRetain, Device **context, int device) {
  DEVICE(cuDevicePrimaryCtxRetain);
  *context = d.devices[device].get();
  return (*context)->retained++, 0;
}
API(cuDevicePrimaryCtxRelease_v2, int device) {
  DEVICE(cuDevicePrimaryCtxRelease_v2);
  REQUIRE(d.devices[device]->retained, 201);
  return d.devices[device]->retained--, 0;
}
API(cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *active) {
  DEVICE(cuDevicePrimaryCtxGetState);
  return *flags = 0, *active = d.devices[device]->retained > 0, 0;
}
API(cuCtxSetCurrent, Device *context) { ENTER_ANY(cuCtxSetCurrent); return current = context, 0; }
API(cuCtxGetCurrent, Device **context) { ENTER_ANY(cuCtxGetCurrent); return *context = current, 0; }
API(cuCtxGetDevice, int *device) { ENTER(cuCtxGetDevice); return *device = current->ordinal, 0; }
API(cuCtxSynchronize, ) {
  ENTER(cuCtxSynchronize);
  if (int error = prohibited(d)) return error;
  return wait_for_device(d, current);
}
API(cuCtxEnablePeerAccess, Device *peer, unsigned) {
  ENTER(cuCtxEnablePeerAccess);
  REQUIRE(peer != current, 101);
  return current->peers.insert(peer).second ? 0 : 704;
}
API(cuCtxGetStreamPriorityRange, int *least, int *greatest) {
  ENTER(cuCtxGetStreamPriorityRange);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return 0;
}

// ---- Memory

API(cuMemGetInfo_v2, size_t *free, size_t *total) {
  ENTER(cuMemGetInfo_v2);
  Arena &arena = d.memory.arenas[current->ordinal];
  return *total = arena.limit, *free = arena.limit - arena.used, 0;
}
API(cuMemAlloc_v2, char **p, size_t bytes) {
  ENTER(cuMemAlloc_v2);
  if (int error = prohibited(d)) return error;
  REQUIRE(bytes, 1);
  return (*p = d.memory.allocate(current->ordinal, bytes)) ? 0 : 2;
}

// Errors of a launch, and writes around an allocation, stay in the context.
static void stick(Device *device, int error, const std::string &what) {
  fprintf(stderr, "cusim: %s\n", what.c_str());
  if (!device->sticky) device->sticky = error;
}
static void check_canaries(Driver &d, Device *device, const std::string &after) {
  Area *a = d.memory.overrun();
  if (!a) return;
  char text[120];
  snprintf(text, sizeof text, ": write outside the %zu bytes at %p", a->bytes, a->user);
  stick(device, kIllegalAddress, after + text);
}

API(cuMemFree_v2, char *p) {
  ENTER(cuMemFree_v2);
  if (int error = prohibited(d)) return error;
  if (!p) return 0;
  Area *a = d.memory.area(p);
  REQUIRE(a && a->user == p && a->kind == Area::kAllocation, 1);
  wait_for_device(d, d.devices[a->device].get());
  {
    Memory::Access access(d.memory);
    check_canaries(d, current, "before cuMemFree");
  }
  d.memory.release(a);
  return current->sticky;
}
API(cuMemHostAlloc, char **p, size_t bytes, unsigned) {
  ENTER(cuMemHostAlloc);
  if (int error = prohibited(d)) return error;
  REQUIRE(!posix_memalign((void **)p, kPage, bytes ? bytes : 1), 2);
  memset(*p, kPoisonAllocated, bytes);
  return d.memory.pinned[*p] = bytes, 0;
}
API(cuMemFreeHost, char *p) {
  ENTER(cuMemFreeHost);
  if (int error = prohibited(d)) return error;
  auto it = d.memory.pinned.find(p);
  REQUIRE(it != d.memory.pinned.end(), 1);
  for (auto &device : d.devices) wait_for_device(d, device.get());
  memset(p, kPoisonFreed, it->second);
  d.memory.pinned.erase(it);
  return free(p), 0;
}
API(cuMemHostRegister_v2, char *p, size_t bytes, unsigned) {
  ENTER(cuMemHostRegister_v2);
  REQUIRE(bytes, 1);
  REQUIRE(!d.memory.is_pinned(p) && !d.memory.is_pinned(p + bytes - 1), 712);
  return d.memory.pinned[p] = bytes, 0;
}
API(cuMemHostUnregister, char *p) {
  ENTER(cuMemHostUnregister);
  REQUIRE(d.memory.pinned.count(p), 713);
  for (auto &device : d.devices) wait_for_device(d, device.get());
  return d.memory.pinned.erase(p), 0;
}
API(cuMemHostGetDevicePointer_v2, char **device, char *host, unsigned) {
  ENTER(cuMemHostGetDevicePointer_v2);
  REQUIRE(d.memory.is_pinned(host), 1);
  return *device = host, 0;
}
API(cuPointerGetAttribute, void *out, int attribute, char *p) {
  ENTER_ANY(cuPointerGetAttribute);
  Area *a = d.memory.area(p);
  auto host = Memory::find(d.memory.pinned, p);
  REQUIRE(a || d.memory.is_pinned(p), 1);
  Device *device = a ? d.devices[a->device].get() : current ? current : d.devices[0].get();
  switch (attribute) {
    case 1: return *(Device **)out = device, 0;
    case 2: return *(unsigned *)out = a ? 2 : 1, 0;
    case 3: return *(char **)out = p, 0;
    case 4: return a ? 1 : (*(char **)out = p, 0);
    case 8: return *(unsigned *)out = 0, 0;
    case 9: return *(int *)out = device->ordinal, 0;
    case 11: return *(char **)out = a ? a->user : host->first, 0;
    case 12: return *(size_t *)out = a ? a->bytes : host->second, 0;
    case 13: return *(unsigned *)out = 1, 0;
    default: return 801;
  }
}

// Pageable memory is read or written before the call returns; everything else when the stream comes to it.
static int copy(Driver &d, char *to, const char *from, size_t bytes, void *stream) {
  STREAM(s, stream);
  if (!bytes) return 0;
  bool to_device = d.memory.arena(to), from_device = d.memory.arena(from);
  REQUIRE(!to_device || d.memory.device_span(to, bytes), 1);
  REQUIRE(!from_device || d.memory.device_span(from, bytes), 1);
  if (!from_device && !d.memory.is_pinned(from) && !s->capture) {
    std::vector<char> staged(from, from + bytes);
    return enqueue(d, s, [to, staged = std::move(staged)] { memcpy(to, staged.data(), staged.size()); });
  }
  ItemPtr item;
  if (int error = enqueue(d, s, [=] { memmove(to, from, bytes); }, {}, &item)) return error;
  return item && !to_device && !d.memory.is_pinned(to) ? wait_for(d, {item}) : 0;
}
#define COPY(name, needs) \
  API(name, char *to, char *from, size_t bytes, void *stream) { \
    ENTER(name); REQUIRE(needs, 1); return copy(d, to, from, bytes, stream); }
COPY(cuMemcpyHtoDAsync_v2, !bytes || d.memory.area(to))
COPY(cuMemcpyDtoHAsync_v2, !bytes || d.memory.area(from))
COPY(cuMemcpyDtoDAsync_v2, !bytes || (d.memory.area(to) && d.memory.area(from)))
COPY(cuMemcpyAsync, true)
API(cuMemcpyPeerAsync, char *to, Device *, char *from, Device *, size_t bytes, void *stream) {
  ENTER(cuMemcpyPeerAsync);
  return copy(d, to, from, bytes, stream);
}
#define MEMSET(name, T) \
  API(name, T *to, T value, size_t n, void *stream) { \
    ENTER(name); STREAM(s, stream); \
    REQUIRE(d.memory.arena(to) ? d.memory.device_span((char *)to, n * sizeof(T)) : d.memory.is_pinned(to), 1); \
    return enqueue(d, s, [=] { std::fill_n(to, n, value); }); }
MEMSET(cuMemsetD8Async, unsigned char)
MEMSET(cuMemsetD16Async, unsigned short)
MEMSET(cuMemsetD32Async, unsigned)

struct Location { int type, id; };
struct Properties { int type, handle_types; Location location; };
struct AccessDescriptor { Location location; int flags; };
constexpr size_t kGranularity = 2 << 20;
API(cuMemGetAllocationGranularity, size_t *bytes, const Properties *, int) { return *bytes = kGranularity, 0; }
API(cuMemAddressReserve, char **p, size_t bytes, size_t alignment, char *, u64) {
  ENTER(cuMemAddressReserve);
  REQUIRE(bytes && bytes % kGranularity == 0, 1);
  return (*p = d.memory.arenas[current->ordinal].take(bytes, std::max(alignment, kGranularity))) ? 0 : 2;
}
API(cuMemAddressFree, char *p, size_t bytes) {
  ENTER(cuMemAddressFree);
  Arena *arena = d.memory.arena(p);
  REQUIRE(arena && !d.memory.area(p), 1);
  return arena->give(p, bytes), 0;
}
API(cuMemCreate, Handle **handle, size_t bytes, const Properties *of, u64) {
  ENTER(cuMemCreate);
  REQUIRE(bytes && bytes % kGranularity == 0 && of->location.id < (int)d.devices.size(), 1);
  Arena &arena = d.memory.arenas[of->location.id];
  REQUIRE(arena.used + bytes <= arena.limit, 2);
  *handle = new Handle{of->location.id, memfd_create("cusim", MFD_CLOEXEC), bytes};
  REQUIRE((*handle)->file >= 0 && !ftruncate((*handle)->file, bytes), 2);
  void *pages = mmap(nullptr, bytes, PROT_WRITE, MAP_SHARED, (*handle)->file, 0);
  memset(pages, kPoisonAllocated, bytes);
  munmap(pages, bytes);
  d.handles.insert(*handle);
  return arena.used += bytes, 0;
}
API(cuMemRelease, Handle *handle) {
  ENTER(cuMemRelease);
  REQUIRE(d.handles.erase(handle), 400);
  d.memory.arenas[handle->device].used -= handle->bytes;
  return close(handle->file), delete handle, 0;
}
API(cuMemMap, char *p, size_t bytes, size_t offset, Handle *handle, u64) {
  ENTER(cuMemMap);
  REQUIRE(d.handles.count(handle) && d.memory.arena(p) && offset + bytes <= handle->bytes && !d.memory.area(p), 1);
  mmap(p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->file, offset);
  return d.memory.areas[p] = {Area::kMapping, handle->device, p, p, bytes, bytes}, 0;
}
API(cuMemUnmap, char *p, size_t bytes) {
  ENTER(cuMemUnmap);
  Arena *arena = d.memory.arena(p);
  REQUIRE(arena && d.memory.device_span(p, bytes), 1);
  wait_for_device(d, current);
  mmap(p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena->file, p - arena->base);
  return d.memory.areas.erase(d.memory.areas.lower_bound(p), d.memory.areas.lower_bound(p + bytes)), 0;
}
API(cuMemSetAccess, char *p, size_t bytes, const AccessDescriptor *of, size_t) {
  ENTER(cuMemSetAccess);
  REQUIRE(d.memory.device_span(p, bytes), 1);
  if (!d.memory.strict) mprotect(p, bytes, of->flags ? PROT_READ | PROT_WRITE : PROT_NONE);
  return 0;
}

// ---- Streams and events

API(cuStreamCreateWithPriority, Stream **stream, unsigned flags, int priority) {
  ENTER(cuStreamCreateWithPriority);
  *stream = new Stream{current, !(flags & 1), std::max(-5, std::min(0, priority))};
  return d.streams.insert(*stream), 0;
}
API(cuStreamDestroy_v2, Stream *handle) {
  ENTER(cuStreamDestroy_v2);
  REQUIRE((u64)handle > 2, 400);
  STREAM(s, handle);
  if (s->last) wait_for(d, {s->last});
  return d.streams.erase(s), delete s, 0;
}
API(cuStreamGetPriority, void *stream, int *priority) {
  ENTER(cuStreamGetPriority);
  STREAM(s, stream);
  return *priority = s->priority, 0;
}
API(cuStreamSynchronize, void *stream) {
  ENTER(cuStreamSynchronize);
  STREAM(s, stream);
  if (s->capture) return s->capture->invalid = true, 900;
  if (int error = prohibited(d)) return error;
  if (s->last) wait_for(d, {s->last});
  return current->sticky;
}
API(cuStreamQuery, void *stream) {
  ENTER(cuStreamQuery);
  STREAM(s, stream);
  if (s->capture) return s->capture->invalid = true, 900;
  if (int error = prohibited(d)) return error;
  if (d.random() & 1) step(d);
  return current->sticky ? current->sticky : s->last && !s->last->done ? 600 : 0;
}
API(cuStreamWaitEvent, void *stream, Event *event, unsigned) {
  ENTER(cuStreamWaitEvent);
  STREAM(s, stream);
  EVENT(e, event);
  if (e->capture) {
    REQUIRE(!s->capture || s->capture == e->capture, 902);
    if (!s->capture) s->capture = e->capture, s->frontier.clear();
    for (size_t node : e->frontier)
      if (std::find(s->frontier.begin(), s->frontier.end(), node) == s->frontier.end()) s->frontier.push_back(node);
    return 0;
  }
  if (!e->item || e->item->done) return 0;
  if (s->capture) return s->capture->invalid = true, 905;
  return enqueue(d, s, nullptr, {e->item});
}
API(cuLaunchHostFunc, void *stream, void (*function)(void *), void *argument) {
  ENTER(cuLaunchHostFunc);
  STREAM(s, stream);
  return enqueue(d, s, [=, &d] {  // without the lock: it may wait for a thread that calls the driver
    d.mutex.unlock();
    function(argument);
    d.mutex.lock();
  });
}
API(cuEventCreate, Event **event, unsigned flags) {
  ENTER(cuEventCreate);
  *event = new Event{current, flags};
  return d.handles.insert(*event), 0;
}
API(cuEventDestroy_v2, Event *event) {
  ENTER(cuEventDestroy_v2);
  EVENT(e, event);
  return d.handles.erase(e), delete e, 0;
}
API(cuEventRecordWithFlags, Event *event, void *stream, unsigned flags) {
  ENTER(cuEventRecordWithFlags);
  EVENT(e, event);
  STREAM(s, stream);
  REQUIRE(e->device == s->device, 400);
  if (s->capture && flags & 1)  // an external event is recorded at each replay
    return enqueue(d, s, [e] {
      e->item = std::make_shared<Item>();
      e->item->done = true, e->item->finished = now();
    });
  e->capture = s->capture, e->frontier = s->frontier;
  if (s->capture) return s->capture->invalid ? 901 : 0;
  if (int error = enqueue(d, s, nullptr, {}, &e->item)) return error;
  return e->flags & 4 ? wait_for(d, {e->item}) : 0;  // other processes see an event that has happened
}
API(cuEventRecord, Event *event, void *stream) { return cuEventRecordWithFlags(event, stream, 0); }
API(cuEventQuery, Event *event) {
  ENTER(cuEventQuery);
  EVENT(e, event);
  REQUIRE(!e->capture, 907);
  if (int error = prohibited(d)) return error;
  if (d.random() & 1) step(d);
  return current->sticky ? current->sticky : e->item && !e->item->done ? 600 : 0;
}
API(cuEventSynchronize, Event *event) {
  ENTER(cuEventSynchronize);
  EVENT(e, event);
  REQUIRE(!e->capture, 907);
  if (int error = prohibited(d)) return error;
  if (e->item) wait_for(d, {e->item});
  return current->sticky;
}
API(cuEventElapsedTime_v2, float *milliseconds, Event *start, Event *end) {
  ENTER(cuEventElapsedTime_v2);
  EVENT(a, start);
  EVENT(b, end);
  REQUIRE(!((a->flags | b->flags) & 2) && a->item && b->item && a->device == b->device, 400);
  REQUIRE(a->item->done && b->item->done, 600);
  return *milliseconds = b->item->finished - a->item->finished, 0;
}
API(cuEventElapsedTime, float *ms, Event *start, Event *end) { return cuEventElapsedTime_v2(ms, start, end); }

// ---- Capture and graphs

API(cuStreamBeginCapture_v2, void *stream, int mode) {
  ENTER(cuStreamBeginCapture_v2);
  STREAM(s, stream);
  REQUIRE(s != &s->device->legacy, 900);
  REQUIRE(!s->capture, 1);
  s->capture = std::make_shared<Capture>();
  s->capture->origin = s, s->capture->mode = mode, s->capture->id = ++d.serial;
  s->frontier.clear();
  return d.captures.insert(s->capture), 0;
}
API(cuStreamEndCapture, void *stream, Graph **graph) {
  ENTER(cuStreamEndCapture);
  STREAM(s, stream);
  CapturePtr c = s->capture;
  *graph = nullptr;
  REQUIRE(c, 401);
  REQUIRE(c->origin == s, 903);
  REQUIRE(c->mode == 2 || c->thread == std::this_thread::get_id(), 908);
  std::vector<Graph::Node> &nodes = c->graph->nodes;
  std::vector<bool> joined(nodes.size());
  for (size_t node : s->frontier) joined[node] = true;
  for (size_t i = nodes.size(); i-- > 0;)
    if (joined[i]) for (size_t before : nodes[i].after) joined[before] = true;
  bool all = std::find(joined.begin(), joined.end(), false) == joined.end();
  for (Stream *other : d.streams) if (other->capture == c) other->capture = nullptr, other->frontier.clear();
  d.captures.erase(c);
  REQUIRE(!c->invalid, 901);
  REQUIRE(all, 904);
  *graph = c->graph.get();
  return d.graphs[*graph] = c->graph, 0;
}
API(cuStreamGetCaptureInfo_v2, void *stream, int *status, u64 *id, Graph **graph, const void ***after, size_t *count) {
  ENTER(cuStreamGetCaptureInfo_v2);
  STREAM(s, stream);
  *status = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
  if (id && s->capture) *id = s->capture->id;
  if (graph && s->capture) *graph = s->capture->graph.get();
  if (after) *after = nullptr;
  if (count) *count = 0;
  return 0;
}
API(cuStreamIsCapturing, void *stream, int *status) {
  return cuStreamGetCaptureInfo_v2(stream, status, nullptr, nullptr, nullptr, nullptr);
}
API(cuThreadExchangeStreamCaptureMode, int *mode) { return std::swap(capture_mode, *mode), 0; }
#define GRAPH(variable, handle) REQUIRE(d.graphs.count(handle), 400); GraphPtr variable = d.graphs[handle]
API(cuGraphInstantiateWithFlags, void **executable, Graph *graph, u64) {
  ENTER(cuGraphInstantiateWithFlags);
  GRAPH(g, graph);
  *executable = new char;  // a handle of its own: the graph may be destroyed first
  return d.graphs[*executable] = g, 0;
}
API(cuGraphLaunch, void *executable, void *stream) {
  ENTER(cuGraphLaunch);
  GRAPH(g, executable);
  STREAM(s, stream);
  return enqueue(d, s, [g, &d] {
    std::vector<bool> done(g->nodes.size());
    for (size_t left = g->nodes.size(); left; left--) {
      std::vector<size_t> ready;
      for (size_t i = 0; i < done.size(); i++) {
        bool blocked = done[i];
        for (size_t before : g->nodes[i].after) blocked = blocked || !done[before];
        if (!blocked) ready.push_back(i);
      }
      size_t next = ready[d.random.below(ready.size())];
      if (g->nodes[next].work) g->nodes[next].work();
      done[next] = true;
    }
  });
}
API(cuGraphDestroy, void *graph) { ENTER_ANY(cuGraphDestroy); return d.graphs.erase(graph) ? 0 : 400; }
API(cuGraphExecDestroy, char *executable) {
  ENTER_ANY(cuGraphExecDestroy);
  REQUIRE(d.graphs.erase(executable), 400);
  return delete executable, 0;
}
API(cuGraphGetNodes, Graph *graph, void **nodes, size_t *count) {
  ENTER_ANY(cuGraphGetNodes);
  GRAPH(g, graph);
  for (size_t i = 0; nodes && i < std::min(*count, g->nodes.size()); i++) nodes[i] = &g->nodes[i];
  return *count = g->nodes.size(), 0;
}

// ---- Sharing between processes

struct IpcHandle { pid_t process; int file, device; size_t offset, bytes; char rest[32]; };
static_assert(sizeof(IpcHandle) == 64);
API(cuIpcGetMemHandle, IpcHandle *handle, char *p) {
  ENTER(cuIpcGetMemHandle);
  Area *a = d.memory.area(p);
  REQUIRE(a && a->kind == Area::kAllocation, 1);
  Arena &arena = d.memory.arenas[a->device];
  return *handle = {getpid(), arena.file, a->device, size_t(a->base - arena.base), a->bytes, {}}, 0;
}
API(cuIpcOpenMemHandle_v2, char **p, IpcHandle handle, unsigned) {
  ENTER(cuIpcOpenMemHandle_v2);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
  int file = open(path, O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0, 1);
  size_t span = (handle.bytes + kGuard + kPage - 1) / kPage * kPage;
  char *base = d.memory.arenas[current->ordinal].take(span);
  mmap(base, span, d.memory.strict ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, handle.offset);
  close(file);
  *p = base + kGuard;
  return d.memory.areas[*p] = {Area::kForeign, current->ordinal, *p, base, handle.bytes, span}, 0;
}
API(cuIpcCloseMemHandle, char *p) {
  ENTER(cuIpcCloseMemHandle);
  Area *a = d.memory.area(p);
  REQUIRE(a && a->kind == Area::kForeign && a->user == p, 1);
  wait_for_device(d, current);
  Arena &arena = *d.memory.arena(p);
  mmap(a->base, a->span, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena.file, a->base - arena.base);
  arena.give(a->base, a->span);
  return d.memory.areas.erase(p), 0;
}
API(cuIpcGetEventHandle, IpcHandle *handle, Event *event) {
  ENTER(cuIpcGetEventHandle);
  EVENT(e, event);
  REQUIRE(e->flags & 4, 1);
  return *handle = {getpid(), 0, e->device->ordinal, 0, 0, {}}, 0;
}
API(cuIpcOpenEventHandle, Event **event, IpcHandle) {
  ENTER(cuIpcOpenEventHandle);
  *event = new Event{current, 2};
  return d.handles.insert(*event), 0;
}

// ---- Modules and launches

static size_t elf_bytes(const unsigned char *image, size_t *static_shared) {
  auto word = [](const unsigned char *p, int bytes) {
    u64 value = 0;
    return memcpy(&value, p, bytes), value;
  };
  const unsigned char *headers = image + word(image + 32, 8);
  for (u64 i = 0; i < word(image + 56, 2); i++, headers += 56)
    if (word(headers, 4) == 7) *static_shared = word(headers + 40, 8);  // PT_TLS
  return word(image + 40, 8) + word(image + 58, 2) * word(image + 60, 2);
}
API(cuModuleLoadData, Module **module, const unsigned char *image) {
  ENTER(cuModuleLoadData);
  REQUIRE(!memcmp(image, "\x7f" "ELF\2", 5), 200);
  char path[] = "/tmp/cusim-module-XXXXXX";
  size_t static_shared = 0, bytes = elf_bytes(image, &static_shared);
  int file = mkstemp(path);
  REQUIRE(file >= 0 && write(file, image, bytes) == (ssize_t)bytes, 304);
  close(file);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  REQUIRE(library, 209);
  auto builtins = (Builtins *)dlsym(library, "ct_builtins");
  REQUIRE(builtins, 209);
  *module = new Module{current, library, builtins, static_shared, {}};
  return d.handles.insert(*module), 0;
}
API(cuModuleLoadDataEx, Module **module, const unsigned char *image, unsigned, void *, void *) {
  return cuModuleLoadData(module, image);
}
API(cuModuleUnload, Module *module) {
  ENTER(cuModuleUnload);
  REQUIRE(d.handles.erase(module), 400);
  wait_for_device(d, module->device);
  for (auto &[_, function] : module->functions) d.handles.erase(function.get());
  dlclose(module->library);
  return delete module, 0;
}
static Symbol *symbol_of(Module *m, std::string name) {
  if (name.rfind("ct_symbol_", 0)) name = "ct_symbol_" + name;
  return (Symbol *)dlsym(m->library, name.c_str());
}
API(cuModuleGetFunction, Function **function, Module *module, const char *name) {
  ENTER(cuModuleGetFunction);
  REQUIRE(d.handles.count(module), 400);
  Symbol *symbol = symbol_of(module, name);
  REQUIRE(symbol && symbol->run, 500);
  std::unique_ptr<Function> &made = module->functions[name];
  if (!made) made.reset(new Function{module, symbol});
  return d.handles.insert(*function = made.get()), 0;
}
API(cuModuleGetGlobal_v2, void **p, size_t *bytes, Module *module, const char *name) {
  ENTER(cuModuleGetGlobal_v2);
  REQUIRE(d.handles.count(module), 400);
  Symbol *symbol = symbol_of(module, name);
  REQUIRE(symbol && symbol->address, 500);
  if (p) *p = symbol->address;
  if (bytes) *bytes = symbol->bytes;
  return 0;
}
#define FUNCTION(f) REQUIRE(d.handles.count(f), 400)
API(cuFuncSetAttribute, Function *f, int attribute, int value) {
  ENTER(cuFuncSetAttribute);
  FUNCTION(f);
  if (attribute != 8) return 0;
  REQUIRE(value >= 0 && value + f->module->static_shared <= 227 << 10, 1);
  return f->max_dynamic_shared = value, 0;
}
API(cuFuncGetAttribute, int *value, int attribute, Function *f) {
  ENTER(cuFuncGetAttribute);
  FUNCTION(f);
  const int values[] = {1024, (int)f->module->static_shared, 0, 0, 32, 90, 90, 0, f->max_dynamic_shared};
  return *value = attribute >= 0 && attribute < 9 ? values[attribute] : 0, 0;
}
API(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, Function *f, int threads, size_t shared) {
  ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  FUNCTION(f);
  REQUIRE(threads > 0, 1);
  size_t all = shared + f->module->static_shared + 1024;
  return *blocks = std::min<int>({32, 2048 / ((threads + 31) / 32 * 32), int((228 << 10) / all)}), 0;
}
API(cuLaunchKernel, Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void *stream, void **params, void **extra) {
  ENTER(cuLaunchKernel);
  FUNCTION(f);
  STREAM(s, stream);
  REQUIRE(f->module->device == s->device, 400);
  REQUIRE(gx && gy && gz && gx < 1u << 31 && gy < 65536 && gz < 65536 && !extra, 1);
  REQUIRE(bx && by && bz && bx <= 1024 && by <= 1024 && bz <= 64 && bx * by * bz <= 1024, 1);
  REQUIRE((int)shared <= f->max_dynamic_shared, 1);
  std::vector<std::vector<char>> values;  // parameters are read now
  for (const u64 *size = f->symbol->sizes; *size; size++) {
    char *value = (char *)params[values.size()];
    values.emplace_back(value, value + *size);
  }
  return enqueue(d, s, [=, &d, values = std::move(values)] {
    if (s->device->sticky) return;
    std::vector<void *> pointers;
    for (auto &value : values) pointers.push_back((void *)value.data());
    Launch launch = {f->symbol, f->module->builtins, f->module->library, f->module->static_shared, shared,
                     {gx, gy, gz}, {bx, by, bz}, pointers.data()};
    std::string kernel = std::string("kernel ") + f->symbol->name;
    if (int error = d.runner.run(launch)) stick(s->device, error, kernel + ": " + d.runner.error);
    check_canaries(d, s->device, kernel);
  });
}

// ---- Errors

struct ErrorText { int code; const char *name, *text; };
static const ErrorText kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
static int error_text(int code, const char **out, const char *ErrorText::*member) {
  for (const ErrorText &e : kErrors) if (e.code == code) return *out = e.*member, 0;
  return *out = nullptr, 1;
}
API(cuGetErrorName, int code, const char **name) { return error_text(code, name, &ErrorText::name); }
API(cuGetErrorString, int code, const char **text) { return error_text(code, text, &ErrorText::text); }
API(cuProfilerStart, ) { return 0; }
API(cuProfilerStop, ) { return 0; }
}  // namespace cusim
