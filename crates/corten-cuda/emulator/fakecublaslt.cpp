// cuBLASLt by loops, run when the stream comes to a product. Arguments are checked more strictly than NVIDIA's
// library documents: leading dimensions, alignments that the heuristic was promised, the types of a combination,
// and that every element and the workspace lie in device memory. The workspace is overwritten.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <type_traits>
#include <vector>

extern "C" int cusim_library_work(void *stream, const std::function<void()> &work);  // of the driver
extern "C" int cusim_device_span(const void *p, size_t bytes);

namespace {
enum Status { kOk = 0, kInvalid = 7, kFailed = 13, kNotSupported = 15 };
enum Type { R_32F, R_64F, R_16F, R_8I, C_32F, C_64F, R_32I = 10, R_16BF = 14 };
enum Compute { IN_16F = 64, IN_32F = 68, IN_64F = 70, IN_32I = 72, IN_TF32 = 77 };
enum Epilogue { kDefault = 1, kRelu = 2, kBias = 4, kGelu = 32 };

size_t size_of(int type) {
  switch (type) {
    case R_8I: return 1;
    case R_16F: case R_16BF: return 2;
    case R_32F: case R_32I: return 4;
    case R_64F: case C_32F: return 8;
    case C_64F: return 16;
    default: return 0;
  }
}
struct Context { int magic = 0x4C74; };
struct Description {
  int compute, scale, transa = 0, transb = 0;
  unsigned epilogue = kDefault;
  char *bias = nullptr;
};
struct Layout {
  int type, batches = 1;
  int64_t rows, columns, leading, stride = 0;
  bool fits() const { return size_of(type) && rows > 0 && columns > 0 && leading >= rows; }
  size_t span() const {
    return ((batches - 1) * stride + (columns - 1) * leading + rows) * size_of(type);
  }
};
struct Preference { uint64_t workspace = 0; unsigned reductions = 7, alignments[4] = {256, 256, 256, 256}; };
struct Algorithm { uint64_t known, workspace, alignments[4], rest[2]; };
struct Result { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };
static_assert(sizeof(Algorithm) == 64 && sizeof(Result) == 96);
constexpr uint64_t kKnown = 0xA16071777;

std::mutex mutex;
std::set<void *> objects;
// Objects that exist, so that one that was destroyed is noticed.
struct {
  void insert(void *p) { std::lock_guard<std::mutex> lock(mutex); objects.insert(p); }
  bool erase(void *p) { std::lock_guard<std::mutex> lock(mutex); return objects.erase(p); }
  bool count(void *p) { std::lock_guard<std::mutex> lock(mutex); return objects.count(p); }
} live;

int refuse(int status, const char *what) {
  fprintf(stderr, "cusim: cublasLt: %s\n", what);
  return status;
}
#define API(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)
#define NEED(condition) if (!(condition)) return refuse(kInvalid, #condition);
#define SUPPORTED(condition) if (!(condition)) return kNotSupported;

// ---- Elements

template <class T> T get(const char *p) { T x; memcpy(&x, p, sizeof x); return x; }
template <class T> void put(char *p, T x) { memcpy(p, &x, sizeof x); }
float half_to_float(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  float x = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent ? ldexpf(1024 + mantissa, exponent - 25) : ldexpf(mantissa, -24);
  return h >> 15 ? -x : x;
}
uint16_t half_of(float x) {
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  x = fabsf(x);
  if (x != x) return sign | 0x7e00;
  if (x >= 65520) return sign | 0x7c00;
  int exponent;
  frexpf(x, &exponent);
  exponent = exponent < -13 ? -13 : exponent;                 // of subnormal numbers
  float units = nearbyintf(ldexpf(x, 11 - exponent));         // 1024 to 2048
  return x == 0 ? sign : sign | uint16_t((units >= 1024 ? (exponent + 13) << 10 : 0) + units);
}
float bfloat16_to_float(uint16_t b) {
  uint32_t bits = uint32_t(b) << 16;
  return get<float>((const char *)&bits);
}
uint16_t bfloat16_of(float x) {
  uint32_t bits = get<uint32_t>((const char *)&x);
  return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
// Loads and stores in the type that sums have.
template <class V> V load(const char *p, int type) {
  if constexpr (std::is_same_v<V, int32_t>) return type == R_8I ? get<int8_t>(p) : get<int32_t>(p);
  else if constexpr (std::is_floating_point_v<V>)
    return type == R_16F ? half_to_float(get<uint16_t>(p)) : type == R_16BF ? bfloat16_to_float(get<uint16_t>(p)) : get<V>(p);
  else return get<V>(p);
}
template <class V> void store(char *p, int type, V x) {
  if constexpr (std::is_floating_point_v<V>) {
    if (type == R_16F) return put(p, half_of(x));
    if (type == R_16BF) return put(p, bfloat16_of(x));
  }
  put(p, x);
}
float rounded_to_tf32(float x) {
  uint32_t bits = get<uint32_t>((const char *)&x);
  bits = (bits + 0x1000) & ~0x1fffu;
  return get<float>((const char *)&bits);
}
template <class V> V activated(V x, unsigned epilogue) {
  if constexpr (std::is_floating_point_v<V>) {
    if (epilogue & kRelu) return x < 0 ? 0 : x;
    if (epilogue & kGelu) return V(0.5) * x * (1 + std::tanh(V(0.7978845608028654) * (x + V(0.044715) * x * x * x)));
  }
  return x;
}

struct Product {
  Description description;
  Layout a, b, c, d;
  const char *at, *bt, *ct;
  char *dt;
  char alpha[16], beta[16];

  template <class V> V scale(const char *number) const {
    if constexpr (std::is_floating_point_v<V>) return load<V>(number, description.scale);
    else return get<V>(number);
  }
  template <class V> void compute(int64_t batch) const {
    V alpha_ = scale<V>(alpha), beta_ = scale<V>(beta);
    int64_t depth = description.transa ? a.rows : a.columns;
    auto place = [&](const char *base, const Layout &l, int64_t row, int64_t column) {
      return base + (batch * l.stride + column * l.leading + row) * (int64_t)size_of(l.type);
    };
    for (int64_t column = 0; column < d.columns; column++)
      for (int64_t row = 0; row < d.rows; row++) {
        V sum = 0;
        for (int64_t k = 0; k < depth; k++) {
          V x = load<V>(description.transa ? place(at, a, k, row) : place(at, a, row, k), a.type);
          V y = load<V>(description.transb ? place(bt, b, column, k) : place(bt, b, k, column), b.type);
          if constexpr (std::is_same_v<V, float>)
            if (description.compute == IN_TF32) x = rounded_to_tf32(x), y = rounded_to_tf32(y);
          sum += x * y;
        }
        sum *= alpha_;
        if (beta_ != V(0)) sum += beta_ * load<V>(place(ct, c, row, column), c.type);
        if (description.epilogue & kBias) sum += load<V>(description.bias + row * size_of(d.type), d.type);
        store<V>((char *)place(dt, d, row, column), d.type, activated(sum, description.epilogue));
      }
  }
  void operator()() const {
    for (int64_t batch = 0; batch < d.batches; batch++) switch (description.scale) {
      case R_64F: compute<double>(batch); break;
      case C_32F: compute<std::complex<float>>(batch); break;
      case C_64F: compute<std::complex<double>>(batch); break;
      case R_32I: compute<int32_t>(batch); break;
      default: compute<float>(batch);
    }
  }
};

// Whether NVIDIA's library has the combination of types, or the status that says otherwise.
int check_types(const Description &of, const Layout &a, const Layout &b, const Layout &c, const Layout &d) {
  static const int known[][4] = {  // compute, scale, factors, result
      {IN_32F, R_32F, R_32F, R_32F}, {IN_TF32, R_32F, R_32F, R_32F}, {IN_32F, R_32F, R_16F, R_16F},
      {IN_16F, R_16F, R_16F, R_16F}, {IN_32F, R_32F, R_16BF, R_16BF}, {IN_64F, R_64F, R_64F, R_64F},
      {IN_32F, C_32F, C_32F, C_32F}, {IN_TF32, C_32F, C_32F, C_32F}, {IN_64F, C_64F, C_64F, C_64F},
      {IN_32I, R_32I, R_8I, R_32I}};
  bool found = false;
  for (auto &k : known)
    found |= of.compute == k[0] && of.scale == k[1] && a.type == k[2] && b.type == k[2] && c.type == k[3] && d.type == k[3];
  SUPPORTED(found)
  if (a.type == R_8I) SUPPORTED(a.leading % 4 == 0 && b.leading % 4 == 0 && a.rows % 4 == 0 && b.rows % 4 == 0 && d.rows % 4 == 0)
  bool real = d.type == R_32F || d.type == R_16F || d.type == R_16BF;
  SUPPORTED(of.epilogue == kDefault || real || (of.epilogue == kBias && d.type == R_64F))
  return kOk;
}
int check_shapes(const Description &of, const Layout &a, const Layout &b, const Layout &c, const Layout &d) {
  NEED(a.fits() && b.fits() && c.fits() && d.fits())
  NEED((of.transa ? a.columns : a.rows) == d.rows && (of.transb ? b.rows : b.columns) == d.columns)
  NEED((of.transa ? a.rows : a.columns) == (of.transb ? b.columns : b.rows))
  NEED(c.rows == d.rows && c.columns == d.columns)
  NEED(a.batches == d.batches && b.batches == d.batches && c.batches == d.batches)
  NEED(d.batches == 1 || (d.stride != 0 && c.stride != 0))
  static const std::set<unsigned> known = {kDefault, kRelu, kBias, kRelu | kBias, kGelu, kGelu | kBias};
  NEED(known.count(of.epilogue))
  return check_types(of, a, b, c, d);
}
bool overlaps(const char *p, size_t n, const char *q, size_t m) { return p < q + m && q < p + n; }

template <class T> int destroy(T *object) {
  if (!live.erase(object)) return refuse(kInvalid, "an object is destroyed that does not exist");
  delete object;
  return kOk;
}
template <class T> int set(T &to, const void *from, size_t bytes) {
  NEED(from && bytes == sizeof(T))
  return memcpy(&to, from, bytes), kOk;
}
}  // namespace

extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() { return 130002; }
API(cublasLtCreate, Context **out) { return live.insert(*out = new Context), kOk; }
// cuBLAS, whose handles compute nothing here.
API(cublasCreate_v2, Context **out) { return live.insert(*out = new Context), kOk; }
API(cublasSetStream_v2, Context *context, void *) {
  NEED(live.count(context))
  return kOk;
}
API(cublasLtMatmulDescCreate, Description **out, int compute, int scale) {
  return live.insert(*out = new Description{compute, scale}), kOk;
}
API(cublasLtMatmulDescDestroy, Description *of) { return destroy(of); }
API(cublasLtMatmulDescSetAttribute, Description *of, int attribute, const void *from, size_t bytes) {
  NEED(live.count(of))
  switch (attribute) {
    case 3: return set(of->transa, from, bytes);
    case 4: return set(of->transb, from, bytes);
    case 7: return set(of->epilogue, from, bytes);
    case 8: return set(of->bias, from, bytes);
    default: return refuse(kInvalid, "an attribute that is not emulated");
  }
}
API(cublasLtMatrixLayoutCreate, Layout **out, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  return live.insert(*out = new Layout{type, 1, (int64_t)rows, (int64_t)columns, leading}), kOk;
}
API(cublasLtMatrixLayoutDestroy, Layout *of) { return destroy(of); }
API(cublasLtMatrixLayoutSetAttribute, Layout *of, int attribute, const void *from, size_t bytes) {
  NEED(live.count(of))
  switch (attribute) {
    case 5: return set(of->batches, from, bytes);
    case 6: return set(of->stride, from, bytes);
    default: return refuse(kInvalid, "an attribute that is not emulated");
  }
}
API(cublasLtMatmulPreferenceCreate, Preference **out) { return live.insert(*out = new Preference), kOk; }
API(cublasLtMatmulPreferenceDestroy, Preference *of) { return destroy(of); }
API(cublasLtMatmulPreferenceSetAttribute, Preference *of, int attribute, const void *from, size_t bytes) {
  NEED(live.count(of))
  if (attribute == 1) return set(of->workspace, from, bytes);
  if (attribute == 3) return set(of->reductions, from, bytes);
  if (attribute >= 5 && attribute <= 8) return set(of->alignments[attribute - 5], from, bytes);
  return refuse(kInvalid, "an attribute that is not emulated");
}

static unsigned long long searches = 0;
extern "C" __attribute__((visibility("default"))) unsigned long long cusim_searches() { return searches; }

API(cublasLtMatmulAlgoGetHeuristic, Context *context, Description *of, Layout *a, Layout *b, Layout *c, Layout *d,
    Preference *wish, int wanted, Result *results, int *count) {
  NEED(live.count(context) && live.count(of) && live.count(a) && live.count(b) && live.count(c) && live.count(d) && live.count(wish))
  NEED(wanted > 0 && results && count)
  searches++;
  *count = 0;
  if (int status = check_shapes(*of, *a, *b, *c, *d)) return status;
  NEED(!(of->epilogue & kBias) == !of->bias)
  if (a->type == R_8I) SUPPORTED(wish->alignments[0] >= 4 && wish->alignments[1] >= 4 && wish->alignments[3] >= 4)
  Result &r = results[0] = {};
  int64_t depth = of->transa ? a->rows : a->columns;
  r.workspace = depth > 64 && wish->reductions ? std::min<uint64_t>(wish->workspace, 1 << 16) : 0;  // as for split sums
  r.algorithm = {kKnown, r.workspace, {}, {}};
  for (int i = 0; i < 4; i++) r.algorithm.alignments[i] = wish->alignments[i];
  return *count = 1, kOk;
}

API(cublasLtMatmul, Context *context, Description *of, const void *alpha, const char *at, Layout *a, const char *bt, Layout *b,
    const void *beta, const char *ct, Layout *c, char *dt, Layout *d, const Algorithm *algorithm, char *workspace,
    size_t bytes, void *stream) {
  NEED(live.count(context) && live.count(of) && live.count(a) && live.count(b) && live.count(c) && live.count(d))
  if (int status = check_shapes(*of, *a, *b, *c, *d)) return status;
  NEED(alpha && beta && algorithm && algorithm->known == kKnown)
  NEED(bytes >= algorithm->workspace && (!bytes || cusim_device_span(workspace, bytes)))
  const char *all[] = {at, bt, ct, dt};
  const Layout *layouts[] = {a, b, c, d};
  for (int i = 0; i < 4; i++) {
    NEED((uint64_t)all[i] % algorithm->alignments[i] == 0 && (uint64_t)all[i] % size_of(layouts[i]->type) == 0)
    NEED(cusim_device_span(all[i], layouts[i]->span()))
  }
  NEED(!overlaps(dt, d->span(), at, a->span()) && !overlaps(dt, d->span(), bt, b->span()))
  NEED(ct == dt ? c->leading == d->leading && c->stride == d->stride : !overlaps(dt, d->span(), ct, c->span()))
  size_t bias = d->rows * size_of(d->type);
  if (of->epilogue & kBias) NEED(of->bias && cusim_device_span(of->bias, bias) && !overlaps(dt, d->span(), of->bias, bias))
  Product product = {*of, *a, *b, *c, *d, at, bt, ct, dt, {}, {}};
  memcpy(product.alpha, alpha, size_of(of->scale)), memcpy(product.beta, beta, size_of(of->scale));
  size_t used = algorithm->workspace;
  int error = cusim_library_work(stream, [=] { memset(workspace, 0xAB, used), product(); });
  return error ? kFailed : kOk;
}
