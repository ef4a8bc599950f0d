// The driver's objects, and the order in which queues of streams run.
#include <algorithm>
#include <chrono>
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

using Work = std::function<void()>;
struct Item {  // of a stream's queue
  Stream *stream;
  Work work;
  std::vector<std::shared_ptr<Item>> after;
  std::function<bool()> ready = nullptr;  // what it waits for outside of the device, asked without blocking
  bool started = false, done = false;
  u64 mark = 0;
  double finished = 0;  // in milliseconds
};
using ItemPtr = std::shared_ptr<Item>;

struct Node { Work work; std::vector<size_t> after; };
using Graph = std::vector<Node>;
using GraphPtr = std::shared_ptr<Graph>;
struct Capture {
  Stream *origin;
  int mode;
  u64 id;
  bool invalid = false;
  GraphPtr graph = std::make_shared<Graph>();
  std::thread::id thread = std::this_thread::get_id();
};
using CapturePtr = std::shared_ptr<Capture>;

struct Position {  // in a capture: the nodes that the next one comes after
  CapturePtr capture = nullptr;
  std::vector<size_t> frontier = {};
};
struct Stream : Position {
  Device *device;
  bool blocking;
  int priority;
  ItemPtr last = nullptr;
  std::deque<ItemPtr> queue = {};
  Stream(Device *device, bool blocking, int priority) : device(device), blocking(blocking), priority(priority) {}
};
struct Event : Position {
  Device *device;
  unsigned flags;
  ItemPtr item = nullptr;
  Event(Device *device, unsigned flags) : device(device), flags(flags) {}
};
struct Device {  // and its primary context
  int ordinal, retained = 0, sticky = 0;
  Stream legacy{this, true, 0}, per_thread{this, true, 0};
  std::set<Device *> peers;
  Device(int ordinal) : ordinal(ordinal) {}
};
struct Module {
  Device *device;
  void *library;
  Builtins *builtins;
  size_t static_shared;
};
struct Function { Module *module; Symbol *symbol; int max_dynamic_shared; };
struct Handle { int device, file; size_t bytes; };  // of physical memory
struct Injection { int at, error, calls; };

struct Driver {
  std::mutex mutex;
  std::condition_variable_any finished;  // for what runs without the lock: host functions
  bool initialized = false, forked = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Stream *> streams;  // in the order of creation: a seed means the same in each run
  std::set<void *> handles;  // live events, modules, functions and memory handles
  std::map<void *, GraphPtr> graphs;
  std::map<std::pair<Module *, std::string>, Function> functions;
  std::set<CapturePtr> captures;
  std::map<std::string, Injection> injections;
  Memory memory;
  Runner runner;
  Random random;
  u64 marks = 0, captured = 0;
  int major = 9, minor = 0;
  struct sigaction previous[4];
};
static Driver &d = *new Driver;  // threads may outlive static objects
static thread_local Device *current;
static thread_local int capture_mode = 0;

// An entry point: takes the lock, then returns injected errors and those that stay in the context.
struct Call {
  std::unique_lock<std::mutex> lock{d.mutex};
  int error = 0;
  Call(const char *name, bool needs_context) {
    auto it = d.injections.find(name);
    if (!d.initialized) error = 3;
    else if (it != d.injections.end() && (++it->second.calls == it->second.at || !it->second.at)) error = it->second.error;
    else if (needs_context) error = current ? current->sticky : 201;
  }
};
#define API(name, parameters) extern "C" __attribute__((visibility("default"))) int name parameters
#define CALL_IN(context, name, parameters, ...) \
  API(name, parameters) {                       \
    Call call(#name, context);                  \
    if (call.error) return call.error;          \
    __VA_ARGS__                                 \
    return 0;                                   \
  }
#define CALL(...) CALL_IN(true, __VA_ARGS__)
#define CALL_ANYWHERE(...) CALL_IN(false, __VA_ARGS__)
#define CALL_OF_DEVICE(name, parameters, ...) \
  CALL_IN(false, name, parameters, REQUIRE((unsigned)device < d.devices.size(), 101) __VA_ARGS__)
#define REQUIRE(condition, error) if (!(condition)) return error;
#define TRY(call) if (int error = call) return error;
#define STREAM(s, handle) Stream *s = stream_of(handle); REQUIRE(s, 400)
#define LIVE(handle) REQUIRE(d.handles.count(handle), 400)

static Stream *stream_of(void *handle) {
  if ((u64)handle <= 2) return handle == (void *)2 ? &current->per_thread : &current->legacy;
  auto it = std::find(d.streams.begin(), d.streams.end(), handle);
  return it == d.streams.end() ? nullptr : *it;
}

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

// Runs one item that may run, chosen at random; only a marked one if `mark` is given.
static bool step(u64 mark = 0) {
  std::vector<ItemPtr> ready;
  for (Stream *s : d.streams) {
    if (s->queue.empty()) continue;
    ItemPtr &head = s->queue.front();
    bool blocked = head->started || (mark && head->mark != mark);
    for (ItemPtr &before : head->after) blocked |= !before->done;
    blocked = blocked || (head->ready && !head->ready());
    if (!blocked) ready.push_back(head);
  }
  if (ready.empty()) return false;
  Item &item = *ready[d.random.below(ready.size())];
  item.started = true;
  if (item.work && !item.stream->device->sticky) {
    Memory::Access access(d.memory);
    item.work();
  }
  item.done = true, item.finished = now();
  item.after.clear(), item.work = nullptr;
  item.stream->queue.pop_front();
  return d.finished.notify_all(), true;
}

// Waits for items. Half of the time nothing runs but what they depend on, so that a missing dependency shows.
static int wait_for(std::vector<ItemPtr> targets) {
  u64 mark = d.random() & 1 ? ++d.marks : 0;
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
      if (!step(mark)) d.finished.wait_for(d.mutex, std::chrono::milliseconds(1));
  return current ? current->sticky : 0;
}
static int wait_for_last(Stream *s) { return s->last ? wait_for({s->last}) : current->sticky; }
static int wait_for_device(Device *device) {  // or for all devices
  std::vector<ItemPtr> all;
  for (Stream *s : d.streams) if (s->last && (!device || s->device == device)) all.push_back(s->last);
  return wait_for(all);
}

static int enqueue(Stream *s, Work work, std::vector<ItemPtr> after = {}, ItemPtr *made = nullptr,
                   std::function<bool()> ready = nullptr) {
  if (s->capture) {
    REQUIRE(!s->capture->invalid, 901)
    Graph &nodes = *s->capture->graph;
    nodes.push_back({work, s->frontier});
    return s->frontier = {nodes.size() - 1}, 0;
  }
  bool legacy = s == &s->device->legacy;
  for (const CapturePtr &c : d.captures)  // the legacy stream would depend on a stream that captures
    if (legacy && c->origin->device == s->device && c->origin->blocking) return c->invalid = true, 906;
  for (Stream *other : d.streams) {
    bool before = other == s || (other->device == s->device && (legacy ? other->blocking : s->blocking && other == &s->device->legacy));
    if (before && other->last && !other->last->done) after.push_back(other->last);
  }
  s->last = std::make_shared<Item>(Item{s, std::move(work), std::move(after), std::move(ready)});
  s->queue.push_back(s->last);
  if (made) *made = s->last;
  if (d.random.below(8) == 0) step();
  return s->queue.size() > 512 ? wait_for({s->queue[256]}), 0 : 0;
}

// Calls that might synchronize are prohibited while a capture that forbids them goes on.
static int prohibited(Position *of = nullptr) {
  if (of && of->capture) return of->capture->invalid = true, 900;
  int error = 0;
  for (const CapturePtr &c : d.captures) {
    bool own = c->thread == std::this_thread::get_id() && c->mode != 2;
    if (capture_mode != 2 && (own || (capture_mode == 0 && c->mode == 0))) c->invalid = true, error = 900;
  }
  return error;
}

}  // namespace cusim
