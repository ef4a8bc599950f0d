// Device memory: a reserved range of addresses per device, backed by a file in memory that other processes can
// map. Allocations lie between canaries on pages of their own; the page after them is inaccessible.
#include <sys/resource.h>
#include <unistd.h>

#include <map>

#include "engine.hpp"

namespace cusim {
constexpr size_t kGuard = 512, kChecked = 256;
inline size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

struct Area {  // accessible device memory: an allocation, a mapping of a handle, or another process's memory
  enum Kind { kAllocation, kMapping, kForeign } kind;
  int device;
  char *user, *base;
  size_t bytes, span;
};

struct Arena {
  char *base;
  int file = memfd_create("cusim", MFD_CLOEXEC);
  size_t limit, used = 0, addresses = 1ull << 37;
  std::map<char *, size_t> free;  // coalesced spans; the first that fits is taken

  Arena(size_t limit) : limit(limit) {
    rlimit space;
    getrlimit(RLIMIT_AS, &space);
    if (space.rlim_cur != RLIM_INFINITY) addresses = std::min<size_t>(addresses, space.rlim_cur / 8 & -kPage);
    if (ftruncate(file, addresses)) perror("cusim: ftruncate");
    base = (char *)mmap(nullptr, addresses, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (base == MAP_FAILED) perror("cusim: mmap");
    free[base] = addresses / 32 * 31 & -kPage;
  }
  char *never() { return base + addresses / 64 * 63; }  // an address around which nothing is mapped
  bool contains(const void *p) const { return (char *)p >= base && (char *)p < base + addresses; }
  char *take(size_t span, size_t alignment = kPage) {
    for (auto [at, bytes] : free) {
      char *start = (char *)round_up((size_t)at, alignment), *end = at + bytes;
      if (start + span > end) continue;
      free.erase(at);
      if (start > at) free[at] = start - at;
      if (start + span < end) free[start + span] = end - (start + span);
      return start;
    }
    return nullptr;
  }
  void give(char *at, size_t span) {
    auto next = free.lower_bound(at);
    if (next != free.end() && next->first == at + span) span += next->second, next = free.erase(next);
    bool joins = next != free.begin() && std::prev(next)->first + std::prev(next)->second == at;
    joins ? std::prev(next)->second += span : free[at] = span;
  }
  void unmap(char *at, size_t span) {
    mmap(at, span, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, at - base);
  }
};

struct Memory {
  std::vector<Arena> arenas;
  std::map<char *, Area> areas;     // by their first byte
  std::map<char *, size_t> pinned;  // page-locked host memory
  bool strict = false;
  int open = 0;

  // With CUSIM_STRICT the host can touch device memory only while one of these lives.
  struct Access {
    Memory &memory;
    Access(Memory &m) : memory(m) { if (memory.open++ == 0) memory.protect(PROT_READ | PROT_WRITE); }
    ~Access() { if (--memory.open == 0) memory.protect(PROT_NONE); }
  };
  void protect(int protection) {
    if (strict) for (auto &[_, a] : areas) mprotect(a.base, a.span, protection);
  }
  Arena *arena(const void *p) {
    for (Arena &a : arenas) if (a.contains(p)) return &a;
    return nullptr;
  }
  template <class Map> static auto find(Map &map, const void *p) {
    auto it = map.upper_bound((char *)p);
    return it == map.begin() ? map.end() : std::prev(it);
  }
  Area *area(const void *p) {
    auto it = find(areas, p);
    return it != areas.end() && (char *)p < it->second.user + it->second.bytes ? &it->second : nullptr;
  }
  bool is_pinned(const void *p) {
    auto it = find(pinned, p);
    return it != pinned.end() && (char *)p < it->first + it->second;
  }
  bool device_span(const char *p, size_t bytes) {  // neighbouring mappings count as one
    for (const char *end = p + bytes; p < end;) {
      Area *a = area(p);
      if (!a) return false;
      p = a->user + a->bytes;
    }
    return true;
  }
  Area *add(Area area) {  // which is already mapped
    mprotect(area.base, area.span, strict && !open ? PROT_NONE : PROT_READ | PROT_WRITE);
    return &(areas[area.user] = area);
  }
  char *allocate(int device, size_t bytes) {
    Arena &arena = arenas[device];
    size_t rounded = round_up(bytes, kGuard), span = round_up(rounded + 2 * kGuard, kPage);
    char *base = arena.used + rounded > arena.limit ? nullptr : arena.take(span + kPage), *user = base + kGuard;
    if (!base) return nullptr;
    arena.used += rounded;
    mprotect(base, span, PROT_READ | PROT_WRITE);
    memset(base, kCanary, kGuard), memset(user, kPoisonAllocated, bytes);
    memset(user + bytes, kCanary, span - kGuard - bytes);
    return add({Area::kAllocation, device, user, base, bytes, span})->user;
  }
  void release(Area a) {
    mprotect(a.base, a.span, PROT_READ | PROT_WRITE);
    memset(a.user, kPoisonFreed, a.bytes);
    if (strict) mprotect(a.base, a.span, PROT_NONE);
    arenas[a.device].used -= round_up(a.bytes, kGuard);
    arenas[a.device].give(a.base, a.span + kPage);
    areas.erase(a.user);
  }
  static bool intact(const Area &a) {
    static const std::string canary(kGuard, (char)kCanary);
    char *end = a.user + a.bytes;
    return a.kind != Area::kAllocation || (!memcmp(a.user - kChecked, canary.data(), kChecked) &&
           !memcmp(end, canary.data(), std::min<size_t>(kChecked, a.base + a.span - end)));
  }
};
}  // namespace cusim
