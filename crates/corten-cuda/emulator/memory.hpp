// Device memory: a reserved range of addresses per device, backed by a file in memory so that other processes
// can map it. Allocations lie between canaries on pages of their own.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <map>

#include "engine.hpp"

namespace cusim {
constexpr size_t kPage = 4096, kGuard = 512, kAddresses = 1ull << 37;

struct Area {  // accessible device memory: an allocation, a mapping of a handle, or another process's memory
  enum Kind { kAllocation, kMapping, kForeign } kind;
  int device;
  char *user, *base;
  size_t bytes, span;
};

struct Arena {
  char *base;
  int file;
  size_t limit, used = 0;
  std::map<char *, size_t> free;  // page spans, coalesced, first fit

  Arena(size_t limit) : limit(limit) {
    file = memfd_create("cusim", MFD_CLOEXEC);
    if (ftruncate(file, kAddresses)) perror("cusim: ftruncate");
    base = (char *)mmap(nullptr, kAddresses, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (base == MAP_FAILED) perror("cusim: mmap");
    free[base] = kAddresses;
  }
  bool contains(const void *p) const { return (char *)p >= base && (char *)p < base + kAddresses; }
  char *take(size_t span, size_t alignment = kPage) {
    for (auto [at, bytes] : free) {
      char *start = (char *)(((uintptr_t)at + alignment - 1) & -alignment);
      if (start + span > at + bytes) continue;
      free.erase(at);
      if (start > at) free[at] = start - at;
      if (start + span < at + bytes) free[start + span] = at + bytes - (start + span);
      return start;
    }
    return nullptr;
  }
  void give(char *at, size_t span) {
    auto next = free.lower_bound(at);
    if (next != free.end() && next->first == at + span) span += next->second, next = free.erase(next);
    if (next != free.begin() && std::prev(next)->first + std::prev(next)->second == at) std::prev(next)->second += span;
    else free[at] = span;
  }
};

struct Memory {
  std::vector<Arena> arenas;
  std::map<char *, Area> areas;      // by their first byte
  std::map<char *, size_t> pinned;   // page-locked host memory, and whether the driver allocated it
  bool strict = false;
  int open = 0;

  // With CUSIM_STRICT the host can touch device memory only while one of these lives.
  struct Access {
    Memory &memory;
    Access(Memory &m) : memory(m) { if (memory.strict && memory.open++ == 0) memory.protect(PROT_READ | PROT_WRITE); }
    ~Access() { if (memory.strict && --memory.open == 0) memory.protect(PROT_NONE); }
  };
  void protect(int protection) {
    for (auto &[_, a] : areas) mprotect(a.base, a.span, protection);
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
  bool device_span(const char *p, size_t bytes) {  // neighbouring mappings count as one
    while (bytes) {
      Area *a = area(p);
      if (!a) return false;
      size_t here = std::min<size_t>(bytes, a->user + a->bytes - p);
      p += here, bytes -= here;
    }
    return true;
  }
  bool is_pinned(const void *p) {
    auto it = find(pinned, p);
    return it != pinned.end() && (char *)p < it->first + it->second;
  }

  char *allocate(int device, size_t bytes) {
    Arena &arena = arenas[device];
    size_t rounded = (bytes + kGuard - 1) / kGuard * kGuard, span = (rounded + 2 * kGuard + kPage - 1) / kPage * kPage;
    if (arena.used + rounded > arena.limit) return nullptr;
    char *base = arena.take(span + kPage);  // the page after it stays inaccessible
    if (!base) return nullptr;
    arena.used += rounded;
    mprotect(base, span, PROT_READ | PROT_WRITE);
    mprotect(base + span, kPage, PROT_NONE);
    memset(base, kCanary, kGuard);
    memset(base + kGuard, kPoisonAllocated, bytes);
    memset(base + kGuard + bytes, kCanary, span - kGuard - bytes);
    areas[base + kGuard] = {Area::kAllocation, device, base + kGuard, base, bytes, span};
    if (strict && !open) mprotect(base, span, PROT_NONE);
    return base + kGuard;
  }
  void release(Area *a) {
    Area was = *a;
    areas.erase(was.user);
    if (strict) mprotect(was.base, was.span, PROT_READ | PROT_WRITE);
    memset(was.user, kPoisonFreed, was.bytes);
    if (strict) mprotect(was.base, was.span, PROT_NONE);
    arenas[was.device].used -= (was.bytes + kGuard - 1) / kGuard * kGuard;
    arenas[was.device].give(was.base, was.span + kPage);
  }

  // The allocation around which something was overwritten, if any.
  Area *overrun() {
    static const std::string canary(kGuard, (char)kCanary);
    for (auto &[_, a] : areas) {
      if (a.kind != Area::kAllocation) continue;
      char *end = a.user + a.bytes;
      if (memcmp(a.base, canary.data(), kGuard) ||
          memcmp(end, canary.data(), std::min<size_t>(kGuard, a.base + a.span - end))) return &a;
    }
    return nullptr;
  }
};
}  // namespace cusim
