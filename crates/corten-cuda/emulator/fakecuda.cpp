// A CUDA driver on host memory. Streams are queues that run in a random legal order, as late as a
// synchronization allows or whenever the seed says. Settings, read by cuInit:
//   CUSIM_SEED     order of streams, blocks and threads (0)
//   CUSIM_DEVICES  number of devices (2), of which CUDA_VISIBLE_DEVICES leaves some
//   CUSIM_MEM      bytes of each device (4 GiB)
//   CUSIM_COMPUTE  compute capability (9.0)
//   CUSIM_VERSION  of the driver, 1000 * major + 10 * minor (13000)
//   CUSIM_STRICT   1: the host faults when it touches device memory, and a kernel when it touches freed memory, or
//                  pageable host memory through its parameters
//   CUSIM_FAIL     injected errors, NAME:CALL[:ERROR] with commas between: cuMemAlloc_v2:3 fails the third call
#include <fcntl.h>

#include <atomic>

#include "driver.hpp"

namespace cusim {
// ---- Devices and contexts

static const int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static void on_fault(int signal, siginfo_t *info, void *) {
  if (Runner::faulted(signal, info->si_addr)) return;
  if (d.memory.arena(info->si_addr)) dprintf(2, "cusim: the host accesses device memory at %p\n", info->si_addr);
  for (int i = 0; i < 4; i++) if (kFaults[i] == signal) sigaction(signal, &d.previous[i], nullptr);
}
static u64 setting(const char *name, u64 otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, nullptr, 0) : otherwise;
}
static const char *after_comma(const char *p) { return (p = strchr(p, ',')) ? p + 1 : ""; }

API(cuInit, (unsigned)) {
  std::lock_guard<std::mutex> lock(d.mutex);
  if (d.initialized || d.forked) return d.forked ? 3 : 0;
  const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *compute = getenv("CUSIM_COMPUTE"), *fail = getenv("CUSIM_FAIL");
  int count = setting("CUSIM_DEVICES", 2);
  std::set<int> seen;  // the list of visible devices ends at the first that does not exist
  for (const char *p = visible; p && *p >= '0' && *p <= '9' && atoi(p) < count; p = after_comma(p)) seen.insert(atoi(p));
  if (visible) count = seen.size();
  REQUIRE(count, 100)
  if (compute) sscanf(compute, "%d.%d", &d.major, &d.minor);
  for (const char *p = fail; p && *p; p = after_comma(p)) {  // NAME:CALL or NAME:CALL:ERROR, every call if 0
    char name[80];
    int at = 1, error = strncmp(p, "cuMemAlloc", 10) && strncmp(p, "cuMemHostAlloc", 14) ? 999 : 2;
    if (sscanf(p, "%79[^:,]:%d:%d", name, &at, &error)) d.injections[name] = {at, error, 0};
  }
  if (auto it = d.injections.find("cuInit"); it != d.injections.end()) return it->second.error;
  d.random.state = d.runner.random.state = setting("CUSIM_SEED", 0) * 0x9E3779B97F4A7C15ull + 0x1234567;
  d.memory.strict = setting("CUSIM_STRICT", 0);
  d.runner.is_global = [](const void *p) { return d.memory.arena(p) != nullptr; };
  for (int i = 0; i < count; i++) {
    d.devices.emplace_back(new Device(i));
    d.streams.insert(d.streams.end(), {&d.devices[i]->legacy, &d.devices[i]->per_thread});
    d.memory.arenas.emplace_back(setting("CUSIM_MEM", 4ull << 30));
  }
  struct sigaction action = {};
  action.sa_sigaction = on_fault, action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int i = 0; i < 4; i++) sigaction(kFaults[i], &action, &d.previous[i]);
  pthread_atfork(nullptr, nullptr, [] { d.initialized = false, d.forked = true; });
  return d.initialized = true, 0;
}
API(cuDriverGetVersion, (int *version)) { return *version = setting("CUSIM_VERSION", 13000), 0; }
API(cuProfilerStart, ()) { return 0; }
API(cuProfilerStop, ()) { return 0; }
CALL_ANYWHERE(cuDeviceGetCount, (int *count), *count = d.devices.size();)
CALL_OF_DEVICE(cuDeviceGet, (int *out, int device), *out = device;)
CALL_OF_DEVICE(cuDeviceGetName, (char *name, int bytes, int device), snprintf(name, bytes, "Emulated NVIDIA GPU");)
CALL_OF_DEVICE(cuDeviceTotalMem_v2, (size_t *bytes, int device), *bytes = d.memory.arenas[device].limit;)
CALL_OF_DEVICE(cuDeviceGetUuid_v2, (char *uuid, int device), memcpy(uuid, "emulated device", 15); uuid[15] = device;)
CALL_OF_DEVICE(cuDeviceGetPCIBusId, (char *id, int bytes, int device), snprintf(id, bytes, "0000:%02X:00.0", device + 1);)
CALL_OF_DEVICE(cuDeviceCanAccessPeer, (int *can, int device, int peer), *can = device != peer;)
CALL_OF_DEVICE(cuDevicePrimaryCtxRetain, (Device **context, int device),
  *context = d.devices[device].get(); (*context)->retained++;)
CALL_OF_DEVICE(cuDevicePrimaryCtxRelease_v2, (int device), REQUIRE(d.devices[device]->retained, 201) d.devices[device]->retained--;)
CALL_OF_DEVICE(cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *active),
  *flags = 0; *active = d.devices[device]->retained > 0;)
CALL_OF_DEVICE(cuDeviceGetAttribute, (int *value, int attribute, int device),
  static const std::map<int, int> values = {
      {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 48 << 10}, {9, 64 << 10},
      {10, 32}, {11, 2147483647}, {12, 65536}, {13, 1980000}, {14, 512}, {15, 1}, {16, 132}, {19, 1}, {31, 1}, {32, 1},
      {36, 2619000}, {37, 5120}, {38, 50 << 20}, {39, 2048}, {40, 3}, {41, 1}, {51, 32}, {78, 1}, {79, 1}, {80, 1},
      {81, 228 << 10}, {82, 65536}, {83, 1}, {87, 2}, {90, 1}, {97, 227 << 10}, {99, 1}, {102, 1}, {103, 1}, {106, 32},
      {111, 1024}, {125, 1}};
  auto it = values.find(attribute);
  *value = attribute == 75 ? d.major : attribute == 76 ? d.minor : attribute == 33 ? device + 1 :
           it == values.end() ? 0 : it->second;)
CALL_ANYWHERE(cuCtxSetCurrent, (Device *context), current = context;)
CALL_ANYWHERE(cuCtxGetCurrent, (Device **context), *context = current;)
CALL(cuCtxGetDevice, (int *device), *device = current->ordinal;)
CALL(cuCtxSynchronize, (), TRY(prohibited()) return wait_for_device(current);)
CALL(cuCtxEnablePeerAccess, (Device *peer, unsigned), REQUIRE(peer != current, 101) REQUIRE(current->peers.insert(peer).second, 704))
CALL(cuCtxGetStreamPriorityRange, (int *least, int *greatest), if (least) *least = 0; if (greatest) *greatest = -5;)

// ---- Memory

static void stick(Device *device, int error, const std::string &what) {  // the error stays in the context
  fprintf(stderr, "cusim: %s\n", what.c_str());
  if (!device->sticky) device->sticky = error;
}
static void check_canaries(Device *device, const Area &a, const std::string &when) {
  if (!Memory::intact(a))
    stick(device, kIllegalAddress, when + ": write outside the " + std::to_string(a.bytes) + " bytes of an allocation");
}
CALL(cuMemGetInfo_v2, (size_t *free, size_t *total),
  Arena &arena = d.memory.arenas[current->ordinal]; *total = arena.limit; *free = arena.limit - arena.used;)
CALL(cuMemAlloc_v2, (char **p, size_t bytes), TRY(prohibited()) REQUIRE(bytes, 1)
  return (*p = d.memory.allocate(current->ordinal, bytes)) ? 0 : 2;)
CALL(cuMemFree_v2, (char *p), TRY(prohibited())
  if (!p) return 0;
  Area *a = d.memory.area(p);
  REQUIRE(a && a->user == p && a->kind == Area::kAllocation, 1)
  wait_for_device(d.devices[a->device].get());
  Memory::Access access(d.memory);
  check_canaries(current, *a, "before cuMemFree");
  d.memory.release(*a);
  return current->sticky;)
CALL(cuMemHostAlloc, (char **p, size_t bytes, unsigned), TRY(prohibited())
  REQUIRE(!posix_memalign((void **)p, kPage, bytes ? bytes : 1), 2)
  memset(*p, kPoisonAllocated, bytes);
  d.memory.pinned[*p] = bytes;)
CALL(cuMemFreeHost, (char *p), TRY(prohibited()) REQUIRE(d.memory.pinned.count(p), 1)
  wait_for_device(nullptr);
  memset(p, kPoisonFreed, d.memory.pinned[p]);
  d.memory.pinned.erase(p);
  free(p);)
CALL(cuMemHostRegister_v2, (char *p, size_t bytes, unsigned), REQUIRE(bytes, 1)
  REQUIRE(!d.memory.is_pinned(p) && !d.memory.is_pinned(p + bytes - 1), 712)
  d.memory.pinned[p] = bytes;)
CALL(cuMemHostUnregister, (char *p), REQUIRE(d.memory.pinned.count(p), 713)
  wait_for_device(nullptr);
  d.memory.pinned.erase(p);)
CALL(cuMemHostGetDevicePointer_v2, (char **out, char *host, unsigned), REQUIRE(d.memory.is_pinned(host), 1) *out = host;)
CALL_ANYWHERE(cuPointerGetAttribute, (void *out, int attribute, char *p),
  Area *a = d.memory.area(p);
  auto host = Memory::find(d.memory.pinned, p);
  REQUIRE(a || d.memory.is_pinned(p), 1)
  Device *device = a ? d.devices[a->device].get() : current ? current : d.devices[0].get();
  switch (attribute) {
    case 1: *(Device **)out = device; break;
    case 2: *(unsigned *)out = a ? 2 : 1; break;
    case 3: *(char **)out = p; break;
    case 4: REQUIRE(!a, 1) *(char **)out = p; break;
    case 8: *(unsigned *)out = 0; break;
    case 9: *(int *)out = device->ordinal; break;
    case 11: *(char **)out = a ? a->user : host->first; break;
    case 12: *(size_t *)out = a ? a->bytes : host->second; break;
    case 13: *(unsigned *)out = 1; break;
    default: return 801;
  })

// Pageable memory is read or written before the call returns; everything else when the stream comes to it.
static int copy(char *to, const char *from, size_t bytes, void *stream) {
  STREAM(s, stream)
  if (!bytes) return 0;
  bool to_device = d.memory.arena(to), from_device = d.memory.arena(from);
  REQUIRE(!to_device || d.memory.device_span(to, bytes), 1)
  REQUIRE(!from_device || d.memory.device_span(from, bytes), 1)
  if (!from_device && !d.memory.is_pinned(from) && !s->capture) {
    std::vector<char> staged(from, from + bytes);
    return enqueue(s, [to, staged = std::move(staged)] { memcpy(to, staged.data(), staged.size()); });
  }
  ItemPtr item;
  TRY(enqueue(s, [=] { memmove(to, from, bytes); }, {}, &item))
  return item && !to_device && !d.memory.is_pinned(to) ? wait_for({item}) : 0;
}
#define COPY(name, needs) \
  CALL(name, (char *to, char *from, size_t bytes, void *stream), REQUIRE(!bytes || (needs), 1) return copy(to, from, bytes, stream);)
static bool addressable(char *p) { return d.memory.area(p) || d.memory.is_pinned(p); }  // by a device
COPY(cuMemcpyHtoDAsync_v2, addressable(to)) COPY(cuMemcpyDtoHAsync_v2, addressable(from))
COPY(cuMemcpyDtoDAsync_v2, addressable(to) && addressable(from)) COPY(cuMemcpyAsync, true)
CALL(cuMemcpyPeerAsync, (char *to, Device *, char *from, Device *, size_t bytes, void *stream), return copy(to, from, bytes, stream);)
#define MEMSET(name, T)                                                                                       \
  CALL(name, (T *to, T value, size_t n, void *stream), STREAM(s, stream)                                      \
    REQUIRE(d.memory.arena(to) ? d.memory.device_span((char *)to, n * sizeof(T)) : d.memory.is_pinned(to), 1) \
    return enqueue(s, [=] { std::fill_n(to, n, value); });)
MEMSET(cuMemsetD8Async, unsigned char) MEMSET(cuMemsetD16Async, unsigned short) MEMSET(cuMemsetD32Async, unsigned)

struct Location { int type, id; };
struct Properties { int type, handle_types; Location location; };
struct AccessDescriptor { Location location; int flags; };
constexpr size_t kGranularity = 2 << 20;
API(cuMemGetAllocationGranularity, (size_t *bytes, const Properties *, int)) { return *bytes = kGranularity, 0; }
CALL(cuMemAddressReserve, (char **p, size_t bytes, size_t alignment, char *, u64), REQUIRE(bytes && bytes % kGranularity == 0, 1)
  return (*p = d.memory.arenas[current->ordinal].take(bytes, std::max(alignment, kGranularity))) ? 0 : 2;)
CALL(cuMemAddressFree, (char *p, size_t bytes), Arena *arena = d.memory.arena(p); REQUIRE(arena && !d.memory.area(p), 1)
  arena->give(p, bytes);)
CALL(cuMemCreate, (Handle **handle, size_t bytes, const Properties *of, u64),
  REQUIRE(bytes && bytes % kGranularity == 0 && (unsigned)of->location.id < d.devices.size(), 1)
  Arena &arena = d.memory.arenas[of->location.id];
  REQUIRE(arena.used + bytes <= arena.limit, 2)
  *handle = new Handle{of->location.id, memfd_create("cusim", MFD_CLOEXEC), bytes};
  REQUIRE((*handle)->file >= 0 && !ftruncate((*handle)->file, bytes), 2)
  void *pages = mmap(nullptr, bytes, PROT_WRITE, MAP_SHARED, (*handle)->file, 0);
  memset(pages, kPoisonAllocated, bytes);
  munmap(pages, bytes);
  d.handles.insert(*handle);
  arena.used += bytes;)
CALL(cuMemRelease, (Handle *handle), REQUIRE(d.handles.erase(handle), 400)
  d.memory.arenas[handle->device].used -= handle->bytes;
  close(handle->file);
  delete handle;)
CALL(cuMemMap, (char *p, size_t bytes, size_t offset, Handle *handle, u64), LIVE(handle)
  REQUIRE(d.memory.arena(p) && offset + bytes <= handle->bytes && !d.memory.area(p), 1)
  mmap(p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->file, offset);
  d.memory.areas[p] = {Area::kMapping, handle->device, p, p, bytes, bytes};)
CALL(cuMemUnmap, (char *p, size_t bytes), REQUIRE(d.memory.arena(p) && d.memory.device_span(p, bytes), 1)
  wait_for_device(current);
  d.memory.arena(p)->unmap(p, bytes);
  d.memory.areas.erase(d.memory.areas.lower_bound(p), d.memory.areas.lower_bound(p + bytes));)
CALL(cuMemSetAccess, (char *p, size_t bytes, const AccessDescriptor *of, size_t), REQUIRE(d.memory.device_span(p, bytes), 1)
  if (!d.memory.strict) mprotect(p, bytes, of->flags ? PROT_READ | PROT_WRITE : PROT_NONE);)

struct IpcHandle { pid_t process; int file; size_t offset, bytes; char rest[40]; };
static_assert(sizeof(IpcHandle) == 64);
CALL(cuIpcGetMemHandle, (IpcHandle *handle, char *p), Area *a = d.memory.area(p); REQUIRE(a && a->kind == Area::kAllocation, 1)
  Arena &arena = d.memory.arenas[a->device];
  *handle = {getpid(), arena.file, size_t(a->base - arena.base), a->bytes, {}};)
CALL(cuIpcOpenMemHandle_v2, (char **p, IpcHandle handle, unsigned),
  std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0, 1)
  size_t span = round_up(handle.bytes + kGuard, kPage);
  char *base = d.memory.arenas[current->ordinal].take(span);
  mmap(base, span, PROT_NONE, MAP_SHARED | MAP_FIXED, file, handle.offset);
  close(file);
  *p = d.memory.add({Area::kForeign, current->ordinal, base + kGuard, base, handle.bytes, span})->user;)
CALL(cuIpcCloseMemHandle, (char *p), Area *a = d.memory.area(p); REQUIRE(a && a->kind == Area::kForeign && a->user == p, 1)
  wait_for_device(current);
  d.memory.arena(p)->unmap(a->base, a->span);
  d.memory.arena(p)->give(a->base, a->span);
  d.memory.areas.erase(p);)

// ---- Streams and events

CALL(cuStreamCreateWithPriority, (Stream **stream, unsigned flags, int priority),
  d.streams.push_back(*stream = new Stream(current, !(flags & 1), std::max(-5, std::min(0, priority))));)
CALL(cuStreamDestroy_v2, (Stream *handle), REQUIRE((u64)handle > 2, 400) STREAM(s, handle)
  wait_for_last(s);
  d.streams.erase(std::find(d.streams.begin(), d.streams.end(), s));
  delete s;)
CALL(cuStreamGetPriority, (void *stream, int *priority), STREAM(s, stream) *priority = s->priority;)
CALL(cuStreamSynchronize, (void *stream), STREAM(s, stream) TRY(prohibited(s)) return wait_for_last(s);)
static int query(const ItemPtr &item) {
  if (d.random() & 1) step();
  return current->sticky ? current->sticky : item && !item->done ? 600 : 0;
}
CALL(cuStreamQuery, (void *stream), STREAM(s, stream) TRY(prohibited(s)) return query(s->last);)
CALL(cuStreamWaitEvent, (void *stream, Event *e, unsigned), STREAM(s, stream) LIVE(e)
  if (e->capture) {
    REQUIRE(!s->capture || s->capture == e->capture, 902)
    if (!s->capture) s->capture = e->capture, s->frontier.clear();
    for (size_t node : e->frontier)
      if (std::find(s->frontier.begin(), s->frontier.end(), node) == s->frontier.end()) s->frontier.push_back(node);
    return 0;
  }
  if (!e->item || e->item->done) return 0;
  if (s->capture) return s->capture->invalid = true, 905;
  return enqueue(s, nullptr, {e->item});)
CALL(cuLaunchHostFunc, (void *stream, void (*function)(void *), void *argument), STREAM(s, stream)
  return enqueue(s, [=] {  // without the lock: it may wait for a thread that calls the driver
    d.mutex.unlock();
    function(argument);
    d.mutex.lock();
  });)
CALL(cuEventCreate, (Event **event, unsigned flags), d.handles.insert(*event = new Event(current, flags));)
CALL(cuEventDestroy_v2, (Event *event), REQUIRE(d.handles.erase(event), 400) delete event;)
CALL(cuEventRecordWithFlags, (Event *e, void *stream, unsigned flags), LIVE(e) STREAM(s, stream)
  REQUIRE(e->device == s->device, 400)
  if (s->capture && flags & 1)  // an external event is recorded at each replay
    return enqueue(s, [e, s] { e->item = std::make_shared<Item>(Item{s, nullptr, {}, nullptr, true, true, 0, now()}); });
  (Position &)*e = *s;
  if (s->capture) return s->capture->invalid ? 901 : 0;
  TRY(enqueue(s, nullptr, {}, &e->item))
  if (e->flags & 4) return wait_for({e->item});)  // other processes see an event that has happened
API(cuEventRecord, (Event *event, void *stream)) { return cuEventRecordWithFlags(event, stream, 0); }
CALL(cuEventQuery, (Event *e), LIVE(e) REQUIRE(!e->capture, 907) TRY(prohibited()) return query(e->item);)
CALL(cuEventSynchronize, (Event *e), LIVE(e) REQUIRE(!e->capture, 907) TRY(prohibited())
  return e->item ? wait_for({e->item}) : current->sticky;)
CALL(cuEventElapsedTime_v2, (float *milliseconds, Event *a, Event *b), LIVE(a) LIVE(b)
  REQUIRE(!((a->flags | b->flags) & 2) && a->item && b->item && a->device == b->device, 400)
  REQUIRE(a->item->done && b->item->done, 600)
  *milliseconds = b->item->finished - a->item->finished;)
API(cuEventElapsedTime, (float *milliseconds, Event *a, Event *b)) { return cuEventElapsedTime_v2(milliseconds, a, b); }
CALL(cuIpcGetEventHandle, (IpcHandle *handle, Event *e), LIVE(e) REQUIRE(e->flags & 4, 1) *handle = {getpid(), 0, 0, 0, {}};)
CALL(cuIpcOpenEventHandle, (Event **event, IpcHandle), d.handles.insert(*event = new Event(current, 2));)

// ---- Capture and graphs

CALL(cuStreamBeginCapture_v2, (void *stream, int mode), STREAM(s, stream)
  REQUIRE(s != &s->device->legacy, 900)
  REQUIRE(!s->capture, 1)
  (Position &)*s = {std::make_shared<Capture>(Capture{s, mode, ++d.captured})};
  d.captures.insert(s->capture);)
CALL(cuStreamEndCapture, (void *stream, Graph **graph), STREAM(s, stream)
  CapturePtr c = s->capture;
  *graph = nullptr;
  REQUIRE(c, 401)
  REQUIRE(c->origin == s, 903)
  REQUIRE(c->mode == 2 || c->thread == std::this_thread::get_id(), 908)
  std::vector<bool> joined(c->graph->size());
  for (size_t node : s->frontier) joined[node] = true;
  for (size_t i = joined.size(); i-- > 0;)
    if (joined[i]) for (size_t before : (*c->graph)[i].after) joined[before] = true;
  for (Stream *other : d.streams) if (other->capture == c) (Position &)*other = {};
  d.captures.erase(c);
  REQUIRE(!c->invalid, 901)
  REQUIRE(std::find(joined.begin(), joined.end(), false) == joined.end(), 904)
  d.graphs[*graph = c->graph.get()] = c->graph;)
CALL(cuStreamGetCaptureInfo_v2, (void *stream, int *status, u64 *id, Graph **graph, void ***after, size_t *count), STREAM(s, stream)
  *status = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
  if (id && s->capture) *id = s->capture->id;
  if (graph && s->capture) *graph = s->capture->graph.get();
  if (after) *after = nullptr;
  if (count) *count = 0;)
API(cuStreamIsCapturing, (void *stream, int *status)) {
  return cuStreamGetCaptureInfo_v2(stream, status, nullptr, nullptr, nullptr, nullptr);
}
API(cuThreadExchangeStreamCaptureMode, (int *mode)) { return std::swap(capture_mode, *mode), 0; }
CALL(cuGraphInstantiateWithFlags, (void **executable, Graph *graph, u64), REQUIRE(d.graphs.count(graph), 400)
  GraphPtr g = d.graphs[graph];
  d.graphs[*executable = new char] = g;)  // a handle of its own: the graph may be destroyed first
CALL(cuGraphLaunch, (void *executable, void *stream), REQUIRE(d.graphs.count(executable), 400) STREAM(s, stream)
  return enqueue(s, [g = d.graphs[executable]] {
    std::vector<bool> done(g->size());
    for (size_t left = g->size(); left; left--) {
      std::vector<size_t> ready;
      for (size_t i = 0; i < done.size(); i++) {
        bool blocked = done[i];
        for (size_t before : (*g)[i].after) blocked = blocked || !done[before];
        if (!blocked) ready.push_back(i);
      }
      size_t next = ready[d.random.below(ready.size())];
      if ((*g)[next].work) (*g)[next].work();
      done[next] = true;
    }
  });)
CALL_ANYWHERE(cuGraphDestroy, (void *graph), REQUIRE(d.graphs.erase(graph), 400))
CALL_ANYWHERE(cuGraphExecDestroy, (char *executable), REQUIRE(d.graphs.erase(executable), 400) delete executable;)
CALL_ANYWHERE(cuGraphDebugDotPrint, (Graph *graph, const char *path, unsigned), REQUIRE(d.graphs.count(graph), 400)
  FILE *file = fopen(path, "w");
  REQUIRE(file, 304)
  fprintf(file, "digraph dot {\n");
  for (size_t i = 0; i < graph->size(); i++) {
    fprintf(file, "  graph_node_%zu;\n", i);
    for (size_t before : (*graph)[i].after) fprintf(file, "  graph_node_%zu -> graph_node_%zu;\n", before, i);
  }
  fprintf(file, "}\n");
  fclose(file);)
CALL_ANYWHERE(cuGraphGetNodes, (Graph *graph, Node **nodes, size_t *count), REQUIRE(d.graphs.count(graph), 400)
  for (size_t i = 0; nodes && i < std::min(*count, graph->size()); i++) nodes[i] = &(*graph)[i];
  *count = graph->size();)

// ---- Modules and launches

static u64 word(const unsigned char *p, int bytes) {
  u64 value = 0;
  return memcpy(&value, p, bytes), value;
}
CALL(cuModuleLoadData, (Module **module, const unsigned char *elf), REQUIRE(!memcmp(elf, "\x7f" "ELF\2", 5), 200)
  size_t static_shared = 0, bytes = word(elf + 40, 8) + word(elf + 58, 2) * word(elf + 60, 2);
  for (u64 i = 0; i < word(elf + 56, 2); i++) {
    const unsigned char *header = elf + word(elf + 32, 8) + 56 * i;
    if (word(header, 4) == 7) static_shared = word(header + 40, 8);  // the size of PT_TLS
  }
  char path[] = "/tmp/cusim-module-XXXXXX";
  int file = mkstemp(path);
  REQUIRE(file >= 0 && write(file, elf, bytes) == (ssize_t)bytes, 304)
  close(file);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *builtins = library ? dlsym(library, "ct_builtins") : nullptr;
  unlink(path);
  REQUIRE(builtins, 209)
  d.handles.insert(*module = new Module{current, library, (Builtins *)builtins, static_shared});)
API(cuModuleLoadDataEx, (Module **module, const unsigned char *image, unsigned, void *, void *)) { return cuModuleLoadData(module, image); }
CALL(cuModuleUnload, (Module *module), REQUIRE(d.handles.erase(module), 400)
  wait_for_device(module->device);
  for (auto it = d.functions.begin(); it != d.functions.end();)
    if (it->first.first == module) d.handles.erase(&it->second), it = d.functions.erase(it);
    else ++it;
  dlclose(module->library);
  delete module;)
static Symbol *symbol_of(Module *m, std::string name) {
  return (Symbol *)dlsym(m->library, (name.rfind("ct_symbol_", 0) ? "ct_symbol_" + name : name).c_str());
}
CALL(cuModuleGetFunction, (Function **function, Module *module, const char *name), LIVE(module)
  Symbol *symbol = symbol_of(module, name);
  REQUIRE(symbol && symbol->run, 500)
  *function = &d.functions.insert({{module, name}, {module, symbol, 48 << 10}}).first->second;
  d.handles.insert(*function);)
CALL(cuModuleGetGlobal_v2, (void **p, size_t *bytes, Module *module, const char *name), LIVE(module)
  Symbol *symbol = symbol_of(module, name);
  REQUIRE(symbol && symbol->address, 500)
  if (p) *p = symbol->address;
  if (bytes) *bytes = symbol->bytes;)
CALL(cuFuncSetAttribute, (Function *f, int attribute, int value), LIVE(f)
  if (attribute != 8) return 0;
  REQUIRE(value >= 0 && value + f->module->static_shared <= 227 << 10, 1)
  f->max_dynamic_shared = value;)
CALL(cuFuncGetAttribute, (int *value, int attribute, Function *f), LIVE(f)
  const int values[] = {1024, (int)f->module->static_shared, 0, 0, 32, 90, 90, 0, f->max_dynamic_shared};
  *value = attribute >= 0 && attribute < 9 ? values[attribute] : 0;)
CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, Function *f, int threads, size_t shared), LIVE(f)
  REQUIRE(threads > 0, 1)
  int by_shared = (228 << 10) / (shared + f->module->static_shared + 1024);
  *blocks = std::min({32, 2048 / ((threads + 31) / 32 * 32), by_shared});)
static std::atomic<u64> launches{0};  // of kernels and of libraries' work
// A mapped address that is neither on a device nor page-locked: a kernel on real hardware would fault there.
static bool points_to_pageable(void *p) {
  bool plausible = (u64)p >> 40 && (u64)p >> 47 == 0 && !d.memory.arena(p) && !d.memory.is_pinned(p);
  return plausible && !msync((void *)((u64)p & -kPage), 1, MS_ASYNC);
}
CALL(cuLaunchKernel, (Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **params, void **extra), LIVE(f) STREAM(s, stream)
  REQUIRE(f->module->device == s->device, 400)
  REQUIRE(gx && gy && gz && gx < 1u << 31 && gy < 65536 && gz < 65536 && !extra, 1)
  REQUIRE(bx && by && bz && bx <= 1024 && by <= 1024 && bz <= 64 && bx * by * bz <= 1024, 1)
  REQUIRE((int)shared <= f->max_dynamic_shared, 1)
  launches++;
  std::vector<std::vector<char>> values;  // parameters are read now
  for (const u64 *size = f->symbol->sizes; *size; size++) {
    char *value = (char *)params[values.size()];
    values.emplace_back(value, value + *size);
    for (size_t at = 0; d.memory.strict && at + sizeof(void *) <= *size; at += sizeof(void *)) {
      void *&p = *(void **)(values.back().data() + at);
      // In a struct the word may be a small number and padding, which holds whatever was on the caller's stack.
      if ((*size == sizeof(void *) || (u64)p << 32 >> 48) && points_to_pageable(p)) p = d.memory.arenas[0].never();
    }
  }
  return enqueue(s, [=, values = std::move(values)] {
    if (s->device->sticky) return;
    std::vector<void *> pointers;
    for (auto &value : values) pointers.push_back((void *)value.data());
    Module *m = f->module;
    Launch launch = {f->symbol, m->builtins, m->library, m->static_shared, shared, {gx, gy, gz}, {bx, by, bz}, pointers.data()};
    std::string kernel = std::string("kernel ") + f->symbol->name;
    if (int error = d.runner.run(launch)) stick(s->device, error, kernel + ": " + d.runner.error);
    for (auto &[_, area] : d.memory.areas) check_canaries(s->device, area, kernel);
  });)

// ---- For emulated libraries, and tests that count

extern "C" __attribute__((visibility("default"))) u64 cusim_launches() { return launches; }
API(cusim_device_span, (const char *p, size_t bytes)) {
  std::lock_guard<std::mutex> lock(d.mutex);
  return d.memory.device_span(p, bytes);
}
CALL(cusim_library_work, (void *stream, const Work &work), STREAM(s, stream)
  launches++;
  return enqueue(s, work);)
// Work that waits for other processes: `ready` is asked now and then, and never blocks.
CALL(cusim_library_wait, (void *stream, const std::function<bool()> &ready, const Work &work), STREAM(s, stream)
  launches++;
  return enqueue(s, work, {}, nullptr, ready);)

// ---- Errors

struct ErrorText { int code; const char *name, *text; };
static const ErrorText kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"}, {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}, {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"}, {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
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
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"}};
static int error_text(int code, const char **out, const char *ErrorText::*member) {
  for (const ErrorText &e : kErrors) if (e.code == code) return *out = e.*member, 0;
  return *out = nullptr, 1;
}
API(cuGetErrorName, (int code, const char **name)) { return error_text(code, name, &ErrorText::name); }
API(cuGetErrorString, (int code, const char **text)) { return error_text(code, text, &ErrorText::text); }
}  // namespace cusim
