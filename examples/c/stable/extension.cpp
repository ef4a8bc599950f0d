// An extension of PyTorch's stable ABI. Built once against PyTorch's headers, it is loaded into PyTorch and into
// Corten, and does the same there: see extension.py.

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/generator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/pyobject.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <atomic>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

using torch::headeronly::Layout;
using torch::headeronly::MemoryFormat;
using torch::headeronly::ScalarType;
using torch::stable::Device;
using torch::stable::Generator;
using torch::stable::Tensor;

namespace {

std::atomic<int64_t> freed{0};

template <typename T>
std::string joined(const T& numbers) {
  std::ostringstream text;
  text << "[";
  for (auto number : numbers) {
    text << number << ",";
  }
  text << "]";
  return text.str();
}

std::string number_of(ScalarType type) {
  return torch::headeronly::toString(type);
}

Tensor axpy(const Tensor& x, const Tensor& y, double a) {
  STD_TORCH_CHECK(x.scalar_type() == ScalarType::Float, "axpy needs floats");
  STD_TORCH_CHECK(x.numel() == y.numel(), "axpy needs tensors of one size, got ", x.numel(), " and ", y.numel());
  Tensor left = torch::stable::contiguous(x);
  Tensor right = torch::stable::contiguous(y);
  Tensor result = torch::stable::empty_like(left);
  const float* from = left.const_data_ptr<float>();
  const float* other = right.const_data_ptr<float>();
  float* to = result.mutable_data_ptr<float>();
  uint32_t threads = torch::stable::get_num_threads();
  torch::stable::parallel_for(0, x.numel(), 16, [&](int64_t begin, int64_t end) {
    uint32_t index = 0;
    STABLE_TORCH_ERROR_CODE_CHECK(torch_get_thread_idx(&index));
    STD_TORCH_CHECK(index < threads, "thread ", index, " of ", threads);
    for (int64_t i = begin; i < end; i++) {
      to[i] = static_cast<float>(a) * from[i] + other[i];
    }
  });
  return result;
}

Tensor add_one_(Tensor x) {
  Tensor one = torch::stable::new_zeros(x, {1});
  torch::stable::fill_(one, -1.0);
  torch::stable::copy_(x, torch::stable::subtract(x, one));
  return x;
}

std::string values(
    int64_t i,
    double f,
    bool b,
    std::string s,
    ScalarType t,
    Device d,
    Layout l,
    MemoryFormat m) {
  std::ostringstream text;
  text << i << " " << f << " " << b << " " << s.size() << ":" << s << " " << number_of(t) << " "
       << static_cast<int>(d.type()) << ":" << d.index() << " " << static_cast<int>(l) << " " << static_cast<int>(m);
  return text.str();
}

std::string optionals(
    std::optional<int64_t> i,
    std::optional<double> f,
    std::optional<bool> b,
    std::optional<std::string> s,
    std::optional<Tensor> t,
    std::optional<Device> d,
    std::optional<ScalarType> dtype,
    std::optional<std::vector<int64_t>> list,
    std::optional<Generator> generator) {
  std::ostringstream text;
  text << (i ? std::to_string(*i) : "-") << " " << (f ? std::to_string(*f) : "-") << " "
       << (b ? std::to_string(*b) : "-") << " " << (s ? *s : "-") << " " << (t ? joined(t->sizes()) : "-") << " "
       << (d ? std::to_string(static_cast<int>(d->type())) : "-") << " " << (dtype ? number_of(*dtype) : "-") << " "
       << (list ? joined(*list) : "-") << " "
       << (generator ? std::to_string(static_cast<int>(generator->device().type())) : "-");
  return text.str();
}

std::tuple<std::vector<Tensor>, std::vector<int64_t>, std::vector<double>> lists(
    std::vector<int64_t> a,
    std::vector<double> b,
    std::vector<bool> c,
    std::vector<Tensor> d,
    std::vector<std::optional<Tensor>> e) {
  std::vector<Tensor> tensors;
  for (auto tensor = d.rbegin(); tensor != d.rend(); tensor++) {
    tensors.push_back(*tensor);
  }
  for (auto& tensor : e) {
    a.push_back(tensor ? tensor->numel() : -1);
  }
  for (bool truth : c) {
    b.push_back(truth);
  }
  return {tensors, a, b};
}

std::tuple<Tensor, int64_t, double, bool, std::string, std::optional<Tensor>, std::optional<Tensor>> many(Tensor x) {
  return {torch::stable::clone(x), x.dim(), 0.5, true, "text", std::nullopt, x};
}

std::string about(const Tensor& x) {
  std::ostringstream text;
  text << x.dim() << " " << x.numel() << " " << joined(x.sizes()) << " " << joined(x.strides()) << " "
       << x.is_contiguous() << " " << x.storage_offset() << " " << x.element_size() << " " << number_of(x.scalar_type())
       << " " << static_cast<int>(x.device().type()) << ":" << x.device().index() << " "
       << static_cast<int>(x.layout()) << " " << x.defined() << x.has_storage() << x.is_cpu() << x.is_cuda() << " "
       << x.get_device_index();
  if (x.dim() > 0) {
    text << " " << x.size(0) << " " << x.stride(0) << " " << x.size(-1);
  }
  return text.str();
}

std::vector<Tensor> surface(Tensor x, Tensor whole) {
  using namespace torch::stable;
  Tensor indices = full({2}, 1.0, ScalarType::Long);
  Tensor out = empty({x.size(0)}, x.scalar_type());
  sum_out(out, x, torch::headeronly::IntHeaderOnlyArrayRef({1}));
  Tensor zeros = clone(x);
  zero_(zeros);
  auto sorted = sort(x, 1, true);
  auto kept = sort(x, std::optional<bool>(true), 0, false);
  Tensor filled = new_empty(x, {2, 2}, ScalarType::Double);
  fill_(filled, 2.5);
  return {
      narrow(x, 1, 1, 2), pad(x, {1, 2}), pad(x, {1, 1}, "constant", 7.0), amax(x, 1), amax(x, {0, 1}, true),
      transpose(x, 0, 1), zeros, flatten(x, 0, -1), unsqueeze(x, 0), squeeze(unsqueeze(x, 1), 1), select(x, 0, 1),
      matmul(x, transpose(x, 0, 1)), reshape(x, {-1}), view(x, {x.numel()}), view(x, ScalarType::Int),
      to(x, ScalarType::Double), to(x, Device("cpu"), false, true), contiguous(transpose(x, 0, 1)), sum(x), out,
      subtract(x, x, 0.5), filled, bitwise_and(whole, whole), bitwise_or(whole, whole),
      bitwise_left_shift(whole, whole), bitwise_right_shift(whole, whole), permute(x, {1, 0}),
      index_select(x, 0, indices), floor_divide(whole, full({1}, 2.0, ScalarType::Long)), std::get<0>(sorted),
      std::get<1>(sorted), std::get<0>(kept), std::get<1>(kept),
      full({1}, is_pinned(x) ? 1.0 : 0.0), new_zeros(x, {3}, std::nullopt, std::nullopt, Device("cpu")),
  };
}

Tensor blob(int64_t count) {
  float* data = new float[count + 1];
  for (int64_t i = 0; i <= count; i++) {
    data[i] = static_cast<float>(i);
  }
  auto deleter = [data](void*) {
    delete[] data;
    freed++;
  };
  return torch::stable::from_blob(data, {count}, {1}, Device("cpu"), ScalarType::Float, deleter, 1);
}

int64_t count_freed() {
  return freed;
}

struct Strange {};

Tensor fails(Tensor x, std::string how) {
  if (how == "check") {
    STD_TORCH_CHECK(x.dim() == 7, "seven dimensions expected, got ", x.dim());
  } else if (how == "range") {
    throw std::out_of_range("out of range");
  } else if (how == "number") {
    throw 7;
  } else if (how == "object") {
    throw Strange();
  } else if (how == "operator") {
    return torch::stable::matmul(x, x);
  } else if (how == "threads") {
    torch::stable::parallel_for(0, 100000, 10, [](int64_t begin, int64_t end) {
      STD_TORCH_CHECK(end < 50000, "a thread failed");
    });
  } else if (how == "again") {
    try {
      throw std::runtime_error("thrown again");
    } catch (...) {
      std::rethrow_exception(std::current_exception());
    }
  } else if (how == "device") {
    torch::stable::accelerator::DeviceGuard guard(0);
  }
  return x;
}

} // namespace

// Kernels may be registered before their operators are defined.
STABLE_TORCH_LIBRARY_IMPL(stable_test, CPU, m) {
  m.impl("axpy", TORCH_BOX(&axpy));
  m.impl("add_one_", TORCH_BOX(&add_one_));
}

STABLE_TORCH_LIBRARY(stable_test, m) {
  m.def("axpy(Tensor x, Tensor y, float a) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("add_one_(Tensor(a!) x) -> Tensor(a!)");
  m.def(
      "values(int i, float f, bool b, str s, ScalarType t, Device d, Layout l, MemoryFormat m) -> str");
  m.def(
      "optionals(int? i=None, float? f=None, bool? b=None, str? s=None, Tensor? t=None, Device? d=None, "
      "ScalarType? dtype=None, int[]? list=None, Generator? generator=None) -> str");
  m.def("lists(int[] a, float[] b, bool[] c, Tensor[] d, Tensor?[] e) -> (Tensor[], int[], float[])");
}

STABLE_TORCH_LIBRARY_FRAGMENT(stable_test, m) {
  m.def("many(Tensor x) -> (Tensor, int, float, bool, str, Tensor?, Tensor?)");
  m.def("about(Tensor x) -> str");
  m.def("surface(Tensor x, Tensor whole) -> Tensor[]");
  m.def("blob(int count) -> Tensor");
  m.def("freed() -> int");
  m.def("fails(Tensor x, str how) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(stable_test, CompositeExplicitAutograd, m) {
  m.impl("values", TORCH_BOX(&values));
  m.impl("optionals", TORCH_BOX(&optionals));
  m.impl("lists", TORCH_BOX(&lists));
  m.impl("many", TORCH_BOX(&many));
  m.impl("about", TORCH_BOX(&about));
  m.impl("surface", TORCH_BOX(&surface));
  m.impl("blob", TORCH_BOX(&blob));
  m.impl("freed", TORCH_BOX(&count_freed));
  m.impl("fails", TORCH_BOX(&fails));
}

// Objects of Python, for ctypes.PyDLL: whoever calls these gets a new reference, or null after an error.
extern "C" void* negated_object(void* object, void* type) {
  try {
    if (!torch::stable::is_tensor_pyobject(object)) {
      return nullptr;
    }
    Tensor x = torch::stable::tensor_from_pyobject(object);
    return torch::stable::tensor_to_pyobject(torch::stable::subtract(torch::stable::new_zeros(x, {1}), x), type);
  } catch (const std::exception&) {
    return nullptr;
  }
}

extern "C" void* same_dtype_object(void* object) {
  try {
    return torch::stable::dtype_to_pyobject(torch::stable::dtype_from_pyobject(object));
  } catch (const std::exception&) {
    return nullptr;
  }
}

extern "C" void* same_device_object(void* object) {
  try {
    return torch::stable::device_to_pyobject(torch::stable::device_from_pyobject(object));
  } catch (const std::exception&) {
    return nullptr;
  }
}
