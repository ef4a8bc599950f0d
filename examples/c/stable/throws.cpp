// Kernels that throw, over PyTorch's stable C ABI without its headers.

#include "abi.h"

#include <exception>
#include <new>
#include <stdexcept>

namespace {

struct Strange {};

void twice_out_of_range(int64_t, int64_t, void*) {
  throw std::out_of_range("in a thread");
}

void throws(Word* words, uint64_t, uint64_t) {
  switch (words[0]) {
    case 0:
      throw std::runtime_error("a runtime error");
    case 1:
      throw std::out_of_range("an index");
    case 2:
      throw std::invalid_argument("a value");
    case 3:
      throw std::bad_alloc();
    case 4:
      throw 7;
    case 5:
      throw Strange();
    case 6:
      try {
        throw std::logic_error("thrown again");
      } catch (...) {
        std::rethrow_exception(std::current_exception());
      }
    case 7:
      if (torch_parallel_for(0, 1000, 1, twice_out_of_range, nullptr) != 0) {
        throw std::runtime_error(torch_exception_get_what());
      }
      break;
    case 8: {
      // An operator that throws is called by one that catches.
      Word inner[1] = {1};
      if (torch_call_dispatcher("stable_throws::throws", "", inner, 0) != 0) {
        words[0] = 42;
        return;
      }
    }
  }
  words[0] = 0;
}

__attribute__((constructor)) void register_operators() {
  LibraryHandle library = nullptr;
  aoti_torch_library_init_def("stable_throws", __FILE__, __LINE__, &library);
  aoti_torch_library_def(library, "throws(int how) -> int");
  aoti_torch_library_init_impl("stable_throws", "CompositeExplicitAutograd", __FILE__, __LINE__, &library);
  aoti_torch_library_impl(library, "throws", throws);
}

} // namespace
