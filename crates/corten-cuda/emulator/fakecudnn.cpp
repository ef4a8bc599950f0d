// cuDNN's convolutions by loops, run when the stream comes to them. Arguments are checked more strictly than
// NVIDIA's library documents: descriptors that exist, dense strides, sizes that follow from one another, algorithms
// that were offered, and that every element and the workspace lie in device memory. The workspace is overwritten.
// With CUSIM_TF32=1 factors of float32 are rounded as the descriptors allow.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

extern "C" int cusim_library_work(void *stream, const std::function<void()> &work);  // of the driver
extern "C" int cusim_device_span(const void *p, size_t bytes);

namespace {
enum Status { kOk = 0, kBadParam = 2000, kNotSupported = 3000, kFailed = 5000 };
enum Type { kFloat, kDouble, kHalf, kBFloat16 = 9 };
enum Math { kDefault, kTensorOp, kFma = 3 };
constexpr size_t kWorkspace = 4096;  // of algorithm 0, which does not repeat its results; algorithm 1 works in none

size_t size_of(int type) { return type == kDouble ? 8 : type == kFloat ? 4 : 2; }
bool known(int type) { return type == kFloat || type == kDouble || type == kHalf || type == kBFloat16; }

struct Context { void *stream = nullptr; };
struct Tensor {
  int type = -1;
  std::vector<int> sizes, strides;
  size_t count() const { size_t n = 1; for (int size : sizes) n *= size; return n; }
  size_t bytes() const { return count() * size_of(type); }
  bool dense(bool channels_last) const {
    std::vector<size_t> order;
    for (size_t i = sizes.size(); i-- > 2;) order.push_back(i);
    channels_last ? order.insert(order.begin(), 1) : order.insert(order.end(), 1);
    order.push_back(0);
    int64_t next = 1;
    for (size_t dim : order) {
      if (strides[dim] != next) return false;
      next *= sizes[dim];
    }
    return true;
  }
};
struct Filter : Tensor { int format = -1; };
struct Convolution {
  std::vector<int> padding, stride, dilation;
  int groups = 1, math = kDefault, computed = -1;
};
enum Kind { kContext, kTensor, kFilter, kConvolution };
std::mutex mutex;
std::map<void *, Kind> live;  // what exists, so that what was destroyed is noticed
bool is(void *p, Kind kind) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = live.find(p);
  return found != live.end() && found->second == kind;
}
// What tests ask for: computed convolutions, searches, descriptors that exist, and the last algorithm, math and format.
struct Seen { int computed, heuristics, timed, descriptors, algorithm, math, format, role; } seen;

int refuse(const char *what) {
  fprintf(stderr, "cusim: cudnn: %s\n", what);
  return kBadParam;
}
#define EXPORT extern "C" __attribute__((visibility("default")))
#define API(name, ...) EXPORT int name(__VA_ARGS__)
#define NEED(condition) if (!(condition)) return refuse(#condition);
#define SUPPORTED(condition) if (!(condition)) return kNotSupported;
#define TRY(expression) if (int status = expression) return status;

template <class T> int create(T **out, Kind kind) {
  NEED(out)
  std::lock_guard<std::mutex> lock(mutex);
  live[*out = new T] = kind;
  seen.descriptors += kind != kContext;
  return kOk;
}
template <class T> int destroy(T *object, Kind kind) {
  NEED(is(object, kind))
  std::lock_guard<std::mutex> lock(mutex);
  live.erase(object), seen.descriptors--;
  delete object;
  return kOk;
}

// ---- Elements

template <class T> T get(const char *p) { T x; memcpy(&x, p, sizeof x); return x; }
float of_bits(uint32_t bits) { return get<float>((const char *)&bits); }
double load(const char *p, int type, bool tf32) {
  if (type == kDouble) return get<double>(p);
  uint16_t h = type == kFloat ? 0 : get<uint16_t>(p);
  if (type == kBFloat16) return of_bits(uint32_t(h) << 16);
  if (type == kFloat) return tf32 ? of_bits((get<uint32_t>(p) + 0x1000) & ~0x1fffu) : get<float>(p);
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  double x = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
  return h >> 15 ? -x : x;
}
void store(char *p, int type, double x) {
  float single = x;
  uint32_t bits = get<uint32_t>((const char *)&single);
  if (type == kDouble) memcpy(p, &x, 8);
  if (type == kFloat) memcpy(p, &single, 4);
  uint16_t h = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  if (type == kHalf) {
    float size = fabsf(single);
    int exponent;
    frexpf(size, &exponent);
    exponent = exponent < -13 ? -13 : exponent;             // of subnormal numbers
    float units = nearbyintf(ldexpf(size, 11 - exponent));  // 1024 to 2048
    h = size >= 65520 ? 0x7c00 : size == 0 ? 0 : uint16_t((units >= 1024 ? (exponent + 13) << 10 : 0) + units);
    h |= std::signbit(single) ? 0x8000 : 0;
  }
  if (x != x) h = 0x7e00;
  if (type == kHalf || type == kBFloat16) memcpy(p, &h, 2);
}

// ---- Convolutions

enum Role { kForward, kBackwardData, kBackwardFilter };
struct Operation {
  Role role;
  Tensor image, output;
  Filter weight;
  Convolution numbers;

  // Adds all products to what is computed: sums[offset of the element].
  void products(const char *image_at, const char *weight_at, const char *output_at, std::vector<double> &sums) const {
    size_t spatial = image.sizes.size() - 2;
    const char *rounded = getenv("CUSIM_TF32");
    bool tf32 = rounded && *rounded == '1' && image.type == kFloat && numbers.math == kDefault;
    int channels = weight.sizes[1], features = output.sizes[1] / numbers.groups;
    std::vector<int> position(spatial, 0), tap(spatial, 0);
    auto next = [](std::vector<int> &at, const int *sizes) {
      for (size_t i = at.size(); i-- > 0;) { if (++at[i] < sizes[i]) return true; at[i] = 0; }
      return false;
    };
    auto value = [&](const char *base, int64_t offset) { return load(base + offset * size_of(image.type), image.type, tf32); };
    do do {
      int64_t pixel = 0, place = 0, weight_place = 0;
      bool inside = true;
      for (size_t i = 0; i < spatial; i++) {
        int at = position[i] * numbers.stride[i] + tap[i] * numbers.dilation[i] - numbers.padding[i];
        inside = inside && at >= 0 && at < image.sizes[2 + i];
        pixel += (int64_t)at * image.strides[2 + i];
        place += (int64_t)position[i] * output.strides[2 + i];
        weight_place += (int64_t)tap[i] * weight.strides[2 + i];
      }
      if (!inside) continue;
      for (int n = 0; n < image.sizes[0]; n++) for (int f = 0; f < output.sizes[1]; f++) for (int c = 0; c < channels; c++) {
        int64_t x = pixel + (int64_t)n * image.strides[0] + (f / features * channels + c) * image.strides[1];
        int64_t w = weight_place + (int64_t)f * weight.strides[0] + c * weight.strides[1];
        int64_t y = place + (int64_t)n * output.strides[0] + f * output.strides[1];
        if (role == kForward) sums[y] += value(image_at, x) * value(weight_at, w);
        if (role == kBackwardData) sums[x] += value(weight_at, w) * value(output_at, y);
        if (role == kBackwardFilter) sums[w] += value(image_at, x) * value(output_at, y);
      }
    } while (next(tap, &weight.sizes[2])); while (next(position, &output.sizes[2]));
  }
};

// Whether the descriptors fit together; those that NVIDIA's library has no algorithm for are not supported.
int check(Role role, Context *context, Tensor *image, Filter *weight, Convolution *c, Tensor *output) {
  NEED(is(context, kContext) && is(image, kTensor) && is(weight, kFilter) && is(c, kConvolution) && is(output, kTensor))
  size_t dims = image->sizes.size();
  NEED(dims >= 4 && output->sizes.size() == dims && weight->sizes.size() == dims && c->stride.size() == dims - 2)
  NEED(known(image->type) && image->type == weight->type && image->type == output->type)
  NEED(c->computed == (image->type == kDouble ? kDouble : kFloat))
  NEED(image->sizes[0] == output->sizes[0] && image->sizes[1] == weight->sizes[1] * c->groups)
  NEED(output->sizes[1] == weight->sizes[0] && weight->sizes[0] % c->groups == 0)
  for (size_t i = 0; i < dims - 2; i++) {
    NEED(c->stride[i] > 0 && c->dilation[i] > 0 && c->padding[i] >= 0)
    int room = image->sizes[2 + i] + 2 * c->padding[i] - c->dilation[i] * (weight->sizes[2 + i] - 1) - 1;
    NEED(room >= 0 && room / c->stride[i] + 1 == output->sizes[2 + i])
  }
  bool last = weight->format == 1;
  NEED(image->dense(last) && output->dense(last))
  SUPPORTED(!(last && image->type == kDouble) && !(last && dims == 5 && role == kBackwardFilter))
  return kOk;
}

struct Performance { int algorithm, status; float time; size_t memory; int deterministic, math, reserved[3]; };
static_assert(sizeof(Performance) == 48);
int offer(const Convolution &c, bool timed, int asked, int *count, Performance *out) {
  NEED(asked > 0 && count && out)
  // The first one that is offered cannot be used; the clock prefers the last one.
  Performance all[] = {{7, kNotSupported, -1, 0, 1, c.math, {}}, {0, 0, 1, kWorkspace, 0, c.math, {}}, {1, 0, 2, 0, 1, c.math, {}}};
  if (timed) std::swap(all[1], all[2]);
  *count = asked < 3 ? asked : 3;
  for (int i = 0; i < *count; i++) out[i] = all[i];
  (timed ? seen.timed : seen.heuristics)++;
  return kOk;
}
int workspace_size(int algorithm, size_t *bytes) {
  NEED(bytes && (algorithm == 0 || algorithm == 1))
  *bytes = algorithm == 0 ? kWorkspace : 0;
  return kOk;
}
int compute(Role role, Context *context, const void *alpha, const void *beta, Tensor *image, const char *image_at,
            Filter *weight, const char *weight_at, Tensor *output, const char *output_at, Convolution *c, int algorithm,
            char *workspace, size_t bytes) {
  TRY(check(role, context, image, weight, c, output))
  size_t needed;
  TRY(workspace_size(algorithm, &needed))
  NEED(bytes >= needed && (!needed || cusim_device_span(workspace, bytes)))
  NEED(cusim_device_span(image_at, image->bytes()) && cusim_device_span(weight_at, weight->bytes()))
  NEED(cusim_device_span(output_at, output->bytes()) && alpha && beta)
  bool wide = image->type == kDouble;
  NEED(wide ? *(const double *)alpha == 1 && *(const double *)beta == 0 : *(const float *)alpha == 1 && *(const float *)beta == 0)
  seen = {seen.computed + 1, seen.heuristics, seen.timed, seen.descriptors, algorithm, c->math, weight->format, role};
  Operation operation = {role, *image, *output, *weight, *c};
  int error = cusim_library_work(context->stream, [=] {
    if (needed) memset(workspace, 0xAB, needed);
    const Tensor &result = role == kForward ? operation.output : role == kBackwardData ? operation.image : operation.weight;
    char *to = (char *)(role == kForward ? output_at : role == kBackwardData ? image_at : weight_at);
    std::vector<double> sums(result.count());
    operation.products(image_at, weight_at, output_at, sums);
    for (size_t i = 0; i < sums.size(); i++) store(to + i * size_of(result.type), result.type, sums[i]);
  });
  return error ? kFailed : kOk;
}
}  // namespace

EXPORT size_t cudnnGetVersion() { return 90100; }
EXPORT const char *cudnnGetErrorString(int status) {
  return status == kBadParam ? "CUDNN_STATUS_BAD_PARAM" : status == kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_EXECUTION_FAILED";
}
EXPORT const Seen *cusim_cudnn_seen() { return &seen; }
API(cudnnCreate, Context **out) { return create(out, kContext); }
API(cudnnSetStream, Context *context, void *stream) { NEED(is(context, kContext)) return context->stream = stream, kOk; }
API(cudnnCreateTensorDescriptor, Tensor **out) { return create(out, kTensor); }
API(cudnnDestroyTensorDescriptor, Tensor *of) { return destroy(of, kTensor); }
API(cudnnSetTensorNdDescriptor, Tensor *of, int type, int dims, const int *sizes, const int *strides) {
  NEED(is(of, kTensor) && known(type) && sizes && strides)
  SUPPORTED(dims >= 4 && dims <= 8)
  of->type = type, of->sizes.assign(sizes, sizes + dims), of->strides.assign(strides, strides + dims);
  for (int i = 0; i < dims; i++) NEED(sizes[i] > 0 && strides[i] > 0)
  return kOk;
}
API(cudnnCreateFilterDescriptor, Filter **out) { return create(out, kFilter); }
API(cudnnDestroyFilterDescriptor, Filter *of) { return destroy(of, kFilter); }
API(cudnnSetFilterNdDescriptor, Filter *of, int type, int format, int dims, const int *sizes) {
  NEED(is(of, kFilter) && known(type) && sizes && (format == 0 || format == 1))
  SUPPORTED(dims >= 4 && dims <= 8)
  of->type = type, of->format = format, of->sizes.assign(sizes, sizes + dims), of->strides.assign(dims, 0);
  int64_t next = 1;
  if (format == 1) of->strides[1] = 1, next = sizes[1];
  for (int i = dims - 1; i >= 0; i--) {
    NEED(sizes[i] > 0)
    if (i == 1 && format == 1) continue;
    of->strides[i] = next, next *= sizes[i];
  }
  return kOk;
}
API(cudnnCreateConvolutionDescriptor, Convolution **out) { return create(out, kConvolution); }
API(cudnnDestroyConvolutionDescriptor, Convolution *of) { return destroy(of, kConvolution); }
API(cudnnSetConvolutionNdDescriptor, Convolution *of, int dims, const int *padding, const int *stride, const int *dilation,
    int mode, int computed) {
  NEED(is(of, kConvolution) && dims >= 2 && padding && stride && dilation && mode == 1)
  of->padding.assign(padding, padding + dims), of->stride.assign(stride, stride + dims);
  of->dilation.assign(dilation, dilation + dims), of->computed = computed;
  return kOk;
}
API(cudnnSetConvolutionGroupCount, Convolution *of, int groups) {
  NEED(is(of, kConvolution) && groups > 0)
  return of->groups = groups, kOk;
}
API(cudnnSetConvolutionMathType, Convolution *of, int math) {
  NEED(is(of, kConvolution) && (math == kDefault || math == kTensorOp || math == kFma))
  return of->math = math, kOk;
}

#define ROLE(Name, role, FIRST, SECOND, RESULT, first, second, result, image, weight, output)                             \
  API(cudnnGetConvolution##Name##Algorithm_v7, Context *context, FIRST *first, SECOND *second, Convolution *c,            \
      RESULT *result, int asked, int *count, Performance *out) {                                                          \
    TRY(check(role, context, image, weight, c, output))                                                                   \
    return offer(*c, false, asked, count, out);                                                                           \
  }                                                                                                                       \
  API(cudnnGetConvolution##Name##WorkspaceSize, Context *context, FIRST *first, SECOND *second, Convolution *c,           \
      RESULT *result, int algorithm, size_t *bytes) {                                                                     \
    TRY(check(role, context, image, weight, c, output))                                                                   \
    return workspace_size(algorithm, bytes);                                                                              \
  }                                                                                                                       \
  API(cudnnFindConvolution##Name##AlgorithmEx, Context *context, FIRST *first, const char *first##_at, SECOND *second,    \
      const char *second##_at, Convolution *c, RESULT *result, char *result##_at, int asked, int *count,                  \
      Performance *out, char *workspace, size_t bytes) {                                                                  \
    TRY(check(role, context, image, weight, c, output))                                                                   \
    NEED(cusim_device_span(result##_at, result->bytes()) && (!bytes || cusim_device_span(workspace, bytes)))              \
    return offer(*c, true, asked, count, out);                                                                            \
  }                                                                                                                       \
  API(cudnnConvolution##Name, Context *context, const void *alpha, FIRST *first, const char *first##_at, SECOND *second,  \
      const char *second##_at, Convolution *c, int algorithm, char *workspace, size_t bytes, const void *beta,            \
      RESULT *result, char *result##_at) {                                                                                \
    return compute(role, context, alpha, beta, image, image##_at, weight, weight##_at, output, output##_at, c, algorithm, \
                   workspace, bytes);                                                                                     \
  }
ROLE(Forward, kForward, Tensor, Filter, Tensor, x, w, y, x, w, y)
ROLE(BackwardData, kBackwardData, Filter, Tensor, Tensor, w, y, x, x, w, y)
ROLE(BackwardFilter, kBackwardFilter, Tensor, Tensor, Filter, x, y, w, x, w, y)
