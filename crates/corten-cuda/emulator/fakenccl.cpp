// NCCL between processes and threads of one host, over files: the id of a communicator is the path of a folder where
// every rank puts what it gives, and a stream goes on when all have. Calls of a group are one piece of work. Arguments
// must be alike on all ranks: where they are not, the communicator fails. Settings:
//   FAKENCCL_VERSION   of the library, 10000 * major + 100 * minor + patch (22800)
//   FAKENCCL_FAIL      the number of a call, counted from 1, after which communicators report a remote error
//   FAKENCCL_BLOCKING  1: communicators that are asked not to block are refused
//   FAKENCCL_FOLDER    where folders of communicators are made (/tmp); those of ranks that did not end well stay
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

extern "C" int cusim_library_work(void *stream, const std::function<void()> &work);  // of the driver
extern "C" int cusim_library_wait(void *stream, const std::function<bool()> &ready, const std::function<void()> &work);
extern "C" int cusim_device_span(const void *p, size_t bytes);
extern "C" int cuCtxGetDevice(int *device);

namespace {
enum Status { kOk = 0, kCuda = 1, kSystem = 2, kArgument = 4, kUsage = 5, kRemote = 6, kBusy = 7 };
enum Kind { kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter, kSend, kRecv };
enum Op { kSum, kProduct, kMax, kMin, kAverage, kKnown };
const size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
constexpr int kTypes = 12;

// ---- Elements

double bits_to_double(uint64_t bits, int exponent_bits, int mantissa_bits, bool infinities) {
  int bias = (1 << (exponent_bits - 1)) - 1, exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  double mantissa = bits & ((1ull << mantissa_bits) - 1), sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  if (infinities && exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
  if (!exponent) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(1 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}
uint64_t double_to_bits(double x, int exponent_bits, int mantissa_bits) {  // rounds to nearest, ties to even
  int bias = (1 << (exponent_bits - 1)) - 1, exponent;
  uint64_t sign = std::signbit(x) ? 1ull << (exponent_bits + mantissa_bits) : 0, top = ((1ull << exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(x)) return sign | top | 1ull << (mantissa_bits - 1);
  x = std::fabs(x);
  if (std::isinf(x)) return sign | top;
  std::frexp(x, &exponent);
  int step = std::max(exponent - 1, 1 - bias) - mantissa_bits;  // of the last bit
  double units = std::nearbyint(std::ldexp(x, -step));
  uint64_t bits = uint64_t(units);
  if (step > 1 - bias - mantissa_bits || bits >> mantissa_bits) bits += uint64_t(step + bias + mantissa_bits - 1) << mantissa_bits;
  return sign | std::min<uint64_t>(bits, top);
}
struct Layout { int exponent, mantissa; bool infinities; };
Layout layout_of(int type) {
  return type == 6 ? Layout{5, 10, true} : type == 9 ? Layout{8, 7, true} : type == 10 ? Layout{4, 3, false} : Layout{5, 2, true};
}
double get(const char *p, int type) {
  if (type == 7) { float x; memcpy(&x, p, 4); return x; }
  if (type == 8) { double x; memcpy(&x, p, 8); return x; }
  uint64_t bits = 0;
  memcpy(&bits, p, kBytes[type]);
  Layout l = layout_of(type);
  return bits_to_double(bits, l.exponent, l.mantissa, l.infinities);
}
void put(char *p, int type, double x) {
  if (type == 7) { float y = x; memcpy(p, &y, 4); return; }
  if (type == 8) { memcpy(p, &x, 8); return; }
  Layout l = layout_of(type);
  uint64_t bits = double_to_bits(x, l.exponent, l.mantissa);
  memcpy(p, &bits, kBytes[type]);
}
template <class T> T combined(T a, T b, int op) {
  return op == kProduct ? a * b : op == kMax ? (a > b ? a : b) : op == kMin ? (a < b ? a : b) : a + b;
}
template <class T> void combine_integers(char *to, const char *from, size_t count, int op) {
  for (size_t i = 0; i < count; i++) {
    T a, b;
    memcpy(&a, to + i * sizeof(T), sizeof(T)), memcpy(&b, from + i * sizeof(T), sizeof(T));
    a = combined<T>(a, b, op);
    memcpy(to + i * sizeof(T), &a, sizeof(T));
  }
}
template <class T> void divide_integers(char *to, size_t count, int by) {
  for (size_t i = 0; i < count; i++) {
    T a;
    memcpy(&a, to + i * sizeof(T), sizeof(T));
    a /= T(by);
    memcpy(to + i * sizeof(T), &a, sizeof(T));
  }
}
#define INTEGERS(function, ...)                            \
  switch (type) {                                          \
    case 0: return function<int8_t>(__VA_ARGS__);          \
    case 1: return function<uint8_t>(__VA_ARGS__);         \
    case 2: return function<int32_t>(__VA_ARGS__);         \
    case 3: return function<uint32_t>(__VA_ARGS__);        \
    case 4: return function<int64_t>(__VA_ARGS__);         \
    case 5: return function<uint64_t>(__VA_ARGS__);        \
  }
void combine(char *to, const char *from, size_t count, int type, int op) {
  INTEGERS(combine_integers, to, from, count, op)
  for (size_t i = 0; i < count; i++, to += kBytes[type], from += kBytes[type])
    put(to, type, combined(get(to, type), get(from, type), op));
}
void divide(char *to, size_t count, int type, int by) {
  INTEGERS(divide_integers, to, count, by)
  for (size_t i = 0; i < count; i++, to += kBytes[type]) put(to, type, get(to, type) / by);
}

// ---- Communicators

struct Scaled { int type; double factor; const char *device; };
struct Comm {
  std::string folder;
  int rank, size, device;
  bool blocking, met = false;
  uint64_t calls = 0, splits = 0;
  std::map<std::pair<int, int>, uint64_t> messages;  // sent to, or received from, a rank
  std::map<int, Scaled> scaled;
  int made = kKnown;
  // Works of streams may run after the communicator is gone.
  std::shared_ptr<int> failed = std::make_shared<int>(0);
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
};
std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;
uint64_t started = 0;
std::string last_error;

int fail(int status, const std::string &what) {
  Lock lock(mutex);
  last_error = what;
  return status;
}
uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, nullptr, 0) : otherwise;
}
bool exists(const std::string &path) { return !access(path.c_str(), F_OK); }
void write_file(const std::string &path, const std::string &data) {  // seen whole or not at all
  std::string own = path + "." + std::to_string(getpid()) + "." + std::to_string((uintptr_t)&own);
  int file = open(own.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  for (size_t at = 0; file >= 0 && at < data.size();) {
    ssize_t n = write(file, data.data() + at, data.size() - at);
    if (n <= 0) break;
    at += n;
  }
  close(file);
  rename(own.c_str(), path.c_str());
}
std::string read_file(const std::string &path) {
  std::string data;
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char part[1 << 16];
  for (ssize_t n; file >= 0 && (n = read(file, part, sizeof part)) > 0;) data.append(part, n);
  if (file >= 0) close(file);
  return data;
}
std::string here(const Comm &c, int rank) { return c.folder + "/here-" + std::to_string(rank); }
int arrived(Comm &c) {
  for (int rank = 0; rank < c.size && !c.met; rank++) if (!exists(here(c, rank))) return kBusy;
  return c.met = true, kOk;
}
int state(Comm &c) { return *c.failed ? *c.failed : arrived(c); }

// ---- Calls

struct Call {
  Kind kind;
  const char *from;
  char *to;
  size_t count;
  int type, op, root;
  Comm *comm;
  void *stream;
};
thread_local int depth = 0;
thread_local std::vector<Call> pending;

struct Piece {  // of a call that a stream comes to
  Call call;
  std::string name;  // of the files
  Scaled scaled;
  int rank, size;
  std::shared_ptr<int> failed;
  std::shared_ptr<bool> aborted;
  size_t bytes() const { return call.count * kBytes[call.type]; }
  size_t given() const { return call.kind == kReduceScatter ? bytes() * size : bytes(); }
  bool gives() const { return call.kind != kRecv && (call.kind != kBroadcast || call.root == rank); }
  std::string file(int of) const { return call.kind == kSend || call.kind == kRecv ? name : name + std::to_string(of); }
  std::string header() const {
    char text[65] = {};
    snprintf(text, sizeof text, "%d %zu %d %d %d", call.kind, call.count, call.type, call.op < kKnown ? call.op : kKnown, call.root);
    return std::string(text, 64);
  }
  void give() const {
    std::string data = gives() ? std::string(call.from, given()) : "";
    if (call.op >= kKnown) {
      double factor = scaled.device ? get(scaled.device, scaled.type) : scaled.factor;
      for (size_t i = 0; i < data.size() / kBytes[call.type]; i++)
        put(&data[i * kBytes[call.type]], call.type, factor * get(&data[i * kBytes[call.type]], call.type));
    }
    if (call.kind != kRecv) write_file(file(rank), (call.kind == kSend ? std::string(64, ' ') : header()) + data);
  }
  bool ready() const {
    if (*aborted) return true;
    if (*failed) return false;  // until the communicator is aborted
    if (call.kind == kSend) return true;
    if (call.kind == kRecv) return exists(name);
    for (int of = 0; of < size; of++) if (!exists(file(of))) return false;
    for (int of = 0; of < size; of++) if (read_file(file(of)).substr(0, 64) != header()) return *failed = kUsage, false;
    return true;
  }
  void take() const {
    if (*aborted || call.kind == kSend) return;
    if (call.kind == kRecv) {
      std::string data = read_file(name);
      unlink(name.c_str());
      if (data.size() != 64 + bytes()) { *failed = kUsage; return; }
      memcpy(call.to, data.data() + 64, bytes());
      return;
    }
    std::vector<std::string> all;
    for (int of = 0; of < size; of++) all.push_back(read_file(file(of)));
    if (call.kind == kBroadcast) memcpy(call.to, all[call.root].data() + 64, bytes());
    if (call.kind == kAllGather)
      for (int of = 0; of < size; of++) memcpy(call.to + of * bytes(), all[of].data() + 64, bytes());
    if (call.kind == kAllReduce || call.kind == kReduceScatter || (call.kind == kReduce && call.root == rank)) {
      size_t offset = 64 + (call.kind == kReduceScatter ? rank * bytes() : 0);
      std::string sum = all[0].substr(offset, bytes());
      for (int of = 1; of < size; of++) combine(&sum[0], all[of].data() + offset, call.count, call.type, call.op);
      if (call.op == kAverage) divide(&sum[0], call.count, call.type, size);
      memcpy(call.to, sum.data(), bytes());
    }
  }
};

int check(const Call &c) {
  if (!c.comm || c.type < 0 || c.type >= kTypes) return fail(kArgument, "a communicator or a type that does not exist");
  if (*c.comm->failed) return fail(*c.comm->failed, "the communicator has failed before");
  if (c.root < 0 || c.root >= c.comm->size) return fail(kArgument, "there is no rank " + std::to_string(c.root));
  size_t bytes = c.count * kBytes[c.type], all = bytes * c.comm->size;
  bool reads = c.kind != kRecv, writes = c.kind != kSend;
  if (reads && !cusim_device_span(c.from, c.kind == kReduceScatter ? all : bytes)) return fail(kArgument, "what is sent is no memory of a device");
  if (writes && !cusim_device_span(c.to, c.kind == kAllGather ? all : bytes)) return fail(kArgument, "what is received is no memory of a device");
  return kOk;
}
int launch(std::vector<Call> calls) {
  std::map<void *, std::vector<std::shared_ptr<Piece>>> by_stream;
  for (const Call &c : calls) if (int status = check(c)) return status;
  Lock lock(mutex);
  uint64_t fails = setting("FAKENCCL_FAIL", 0);
  for (const Call &c : calls) {
    Comm &comm = *c.comm;
    bool pair = c.kind == kSend || c.kind == kRecv;
    std::string name = comm.folder;
    if (pair) {
      int from = c.kind == kSend ? comm.rank : c.root, to = c.kind == kSend ? c.root : comm.rank;
      uint64_t number = comm.messages[{c.kind, c.root}]++;
      name += "/message-" + std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(number);
    } else {
      name += "/call-" + std::to_string(comm.calls++) + "-";
    }
    Scaled scaled = c.op >= kKnown ? comm.scaled.at(c.op) : Scaled{};
    by_stream[c.stream].push_back(std::make_shared<Piece>(Piece{c, name, scaled, comm.rank, comm.size, comm.failed, comm.aborted}));
    if (fails && ++started >= fails) *comm.failed = kRemote;
  }
  for (auto &[stream, pieces] : by_stream) {
    int status = cusim_library_work(stream, [pieces = pieces] { for (auto &piece : pieces) piece->give(); });
    status = status ? status : cusim_library_wait(stream,
      [pieces = pieces] {
        for (auto &piece : pieces) if (!piece->ready()) return false;
        return true;
      },
      [pieces = pieces] { for (auto &piece : pieces) piece->take(); });
    if (status) return fail(kCuda, "the driver's error " + std::to_string(status));
  }
  return kOk;
}
int enqueue(Call c) {
  if (depth) return pending.push_back(c), kOk;
  return launch({c});
}
int join(Comm **out, const std::string &folder, int size, int rank, bool blocking) {
  int device = 0;
  if (cuCtxGetDevice(&device)) return fail(kCuda, "no device is current on this thread");
  if (rank < 0 || rank >= size) return fail(kArgument, "there is no such rank");
  Comm *c = *out = new Comm{folder, rank, size, device, blocking};
  write_file(here(*c, rank), "1");
  while (blocking && arrived(*c) == kBusy) usleep(1000);
  return blocking ? kOk : kBusy;
}
void remove_folder(const std::string &folder) {
  if (DIR *dir = opendir(folder.c_str())) {
    while (dirent *entry = readdir(dir)) if (entry->d_name[0] != '.') unlink((folder + "/" + entry->d_name).c_str());
    closedir(dir);
  }
  rmdir(folder.c_str());
}
}  // namespace

struct Id { char bytes[128]; };
struct Config { size_t size; unsigned magic, version; int blocking; };

#define API(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)
API(ncclGetVersion, int *version) { return *version = setting("FAKENCCL_VERSION", 22800), kOk; }
API(ncclGetUniqueId, Id *id) {
  memset(id, 0, sizeof *id);
  const char *folder = getenv("FAKENCCL_FOLDER");
  int length = snprintf(id->bytes, sizeof id->bytes, "%s/fakenccl-XXXXXX", folder && *folder ? folder : "/tmp");
  if (length >= int(sizeof id->bytes)) return fail(kSystem, "FAKENCCL_FOLDER is too long");
  return mkdtemp(id->bytes) ? kOk : fail(kSystem, "no folder");
}
extern "C" __attribute__((visibility("default"))) const char *ncclGetErrorString(int status) {
  const char *texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument",
                         "invalid usage", "remote process exited or there was a network error", "NCCL operation in progress"};
  return status >= 0 && status < 8 ? texts[status] : "unknown result code";
}
extern "C" __attribute__((visibility("default"))) const char *ncclGetLastError(Comm *) {
  Lock lock(mutex);
  static thread_local std::string text;
  return text = last_error, text.c_str();
}
API(ncclCommInitRank, Comm **comm, int size, Id id, int rank) { return join(comm, id.bytes, size, rank, true); }
API(ncclCommInitRankConfig, Comm **comm, int size, Id id, int rank, Config *config) {
  if (config->magic != 0xcafebeef || config->size < sizeof(Config)) return fail(kArgument, "the configuration is none");
  if (config->blocking == 0 && setting("FAKENCCL_BLOCKING", 0)) return fail(kUsage, "communicators block");
  return join(comm, id.bytes, size, rank, config->blocking != 0);
}
API(ncclCommSplit, Comm *c, int color, int key, Comm **out, Config *config) {
  std::string base = c->folder + "/split-" + std::to_string(c->splits++) + "-";
  write_file(base + std::to_string(c->rank), std::to_string(color) + " " + std::to_string(key));
  std::vector<std::pair<int, int>> members;  // key and rank
  for (int rank = 0; rank < c->size; rank++) {
    while (!exists(base + std::to_string(rank))) usleep(1000);
    int its_color = 0, its_key = 0;
    sscanf(read_file(base + std::to_string(rank)).c_str(), "%d %d", &its_color, &its_key);
    if (its_color == color) members.push_back({its_key, rank});
  }
  *out = nullptr;
  if (color < 0) return kOk;
  std::sort(members.begin(), members.end());
  int own = 0;
  while (members[own].second != c->rank) own++;
  std::string folder = base + "of-" + std::to_string(color);
  mkdir(folder.c_str(), 0700);
  return join(out, folder, members.size(), own, config->blocking != 0);
}
API(ncclCommFinalize, Comm *c) { return state(*c); }
API(ncclCommDestroy, Comm *c) {
  // The last of the ranks takes the folder away.
  unlink(here(*c, c->rank).c_str());
  bool others = false;
  for (int rank = 0; rank < c->size; rank++) others |= exists(here(*c, rank));
  if (!others) remove_folder(c->folder);
  return delete c, kOk;
}
API(ncclCommAbort, Comm *c) { return *c->aborted = true, delete c, kOk; }
API(ncclCommGetAsyncError, Comm *c, int *status) { return *status = state(*c), kOk; }
API(ncclCommCount, Comm *c, int *count) { return *count = c->size, kOk; }
API(ncclAllReduce, const char *from, char *to, size_t count, int type, int op, Comm *c, void *stream) {
  return enqueue({kAllReduce, from, to, count, type, op, 0, c, stream});
}
API(ncclBroadcast, const char *from, char *to, size_t count, int type, int root, Comm *c, void *stream) {
  return enqueue({kBroadcast, from, to, count, type, 0, root, c, stream});
}
API(ncclReduce, const char *from, char *to, size_t count, int type, int op, int root, Comm *c, void *stream) {
  return enqueue({kReduce, from, to, count, type, op, root, c, stream});
}
API(ncclAllGather, const char *from, char *to, size_t count, int type, Comm *c, void *stream) {
  return enqueue({kAllGather, from, to, count, type, 0, 0, c, stream});
}
API(ncclReduceScatter, const char *from, char *to, size_t count, int type, int op, Comm *c, void *stream) {
  return enqueue({kReduceScatter, from, to, count, type, op, 0, c, stream});
}
API(ncclSend, const char *from, size_t count, int type, int peer, Comm *c, void *stream) {
  return enqueue({kSend, from, nullptr, count, type, 0, peer, c, stream});
}
API(ncclRecv, char *to, size_t count, int type, int peer, Comm *c, void *stream) {
  return enqueue({kRecv, nullptr, to, count, type, 0, peer, c, stream});
}
API(ncclGroupStart) { return depth++, kOk; }
API(ncclGroupEnd) {
  if (!depth) return fail(kUsage, "no group was begun");
  if (--depth) return kOk;
  return launch(std::exchange(pending, {}));
}
API(ncclRedOpCreatePreMulSum, int *op, const char *scalar, int type, int residence, Comm *c) {
  if (type < 6) return fail(kArgument, "integers are not scaled");
  *op = c->made++;
  c->scaled[*op] = {type, residence ? get(scalar, type) : 0, residence ? nullptr : scalar};
  return kOk;
}
API(ncclRedOpDestroy, int op, Comm *c) { return c->scaled.erase(op) ? kOk : fail(kArgument, "there is no such reduction"); }
