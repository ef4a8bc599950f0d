// gloo's collectives as C functions, for programs that load them at run time.
//
// Every function that can fail returns 0 on success and 1 on failure, with the reason as text in `error`; functions
// that return a handle return null on failure. No C++ exception leaves this file. A context may be used by several
// threads at once where their tags differ. Buffers belong to the caller and must stay alive until the call that uses
// them, or the operation that was started with them, has ended.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

// Prefix of the slots of `corten_gloo_allreduce_direct`; gloo's own collectives use 1 to 8.
constexpr uint8_t kDirectSlotPrefix = 0x40;

}  // namespace

extern "C" {

// Where a failure's text goes: at most `capacity` bytes with a null at the end.
struct CortenGlooError {
  char* text;
  size_t capacity;
};

// The store through which processes find each other. Each function returns 0, or another number after it wrote the
// reason to `error`.
struct CortenGlooStore {
  void* user;
  int (*set)(void* user, const char* key, const char* value, size_t length, CortenGlooError error);
  // Hands the value over by one call of `put`.
  int (*get)(void* user, const char* key, void* sink, void (*put)(void* sink, const char* value, size_t length),
             CortenGlooError error);
  int (*wait)(void* user, const char* const* keys, size_t count, int64_t timeout_ms, CortenGlooError error);
};

// Writes `n` elements of a op b to `out`, which may be one of them.
using CortenGlooReduce = void (*)(void* user, void* out, const void* a, const void* b, size_t n);
}

struct CortenGlooDevice {
  std::shared_ptr<gloo::transport::Device> device;
};

struct CortenGlooContext {
  std::shared_ptr<gloo::rendezvous::Context> context;
};

// A send or receive under way.
struct CortenGlooTransfer {
  // Keeps the connections alive as long as the transfer.
  std::shared_ptr<gloo::rendezvous::Context> context;
  Buffer buffer;
};

namespace {

void report(const CortenGlooError& error, const char* text) {
  if (error.text == nullptr || error.capacity == 0) {
    return;
  }
  const size_t length = std::min(std::strlen(text), error.capacity - 1);
  std::memcpy(error.text, text, length);
  error.text[length] = 0;
}

template <typename Body>
int guarded(const CortenGlooError& error, Body body) {
  try {
    body();
    return 0;
  } catch (const std::exception& failure) {
    report(error, failure.what());
  } catch (...) {
    report(error, "gloo raised an exception of an unknown class");
  }
  return 1;
}

template <typename Body>
auto created(const CortenGlooError& error, Body body) -> decltype(body()) {
  decltype(body()) result = nullptr;
  guarded(error, [&] { result = body(); });
  return result;
}

// The caller's store as gloo asks for it.
class Store : public gloo::rendezvous::Store {
 public:
  explicit Store(const CortenGlooStore& functions) : functions_(functions) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    check([&](CortenGlooError error) {
      return functions_.set(functions_.user, key.c_str(), data.data(), data.size(), error);
    });
  }

  std::vector<char> get(const std::string& key) override {
    std::vector<char> value;
    auto put = [](void* sink, const char* data, size_t length) {
      static_cast<std::vector<char>*>(sink)->assign(data, data + length);
    };
    check([&](CortenGlooError error) { return functions_.get(functions_.user, key.c_str(), &value, put, error); });
    return value;
  }

  void wait(const std::vector<std::string>& keys) override { wait(keys, kDefaultTimeout); }

  void wait(const std::vector<std::string>& keys, const Milliseconds& timeout) override {
    std::vector<const char*> names;
    for (const auto& key : keys) {
      names.push_back(key.c_str());
    }
    check([&](CortenGlooError error) {
      return functions_.wait(functions_.user, names.data(), names.size(), timeout.count(), error);
    });
  }

 private:
  template <typename Call>
  void check(Call call) {
    char text[1024] = "the store failed";
    if (call(CortenGlooError{text, sizeof(text)}) != 0) {
      throw std::runtime_error(text);
    }
  }

  const CortenGlooStore functions_;
};

// gloo of 2022 takes the store by reference, later ones take a shared pointer.
template <typename Context>
auto connect(Context& context, std::shared_ptr<Store> store, std::shared_ptr<gloo::transport::Device>& device, int)
    -> decltype(context.connectFullMesh(store, device)) {
  context.connectFullMesh(store, device);
}

template <typename Context>
auto connect(Context& context, std::shared_ptr<Store> store, std::shared_ptr<gloo::transport::Device>& device, long)
    -> decltype(context.connectFullMesh(*store, device)) {
  context.connectFullMesh(*store, device);
}

std::shared_ptr<gloo::transport::Device> device_of_host(const std::string& name) {
  gloo::transport::tcp::attr attr;
  attr.hostname = name;
  return gloo::transport::tcp::CreateDevice(attr);
}

// The device of the host's own name, or of the loopback interface where that name has no address of this host.
std::shared_ptr<gloo::transport::Device> default_device() {
  char name[256] = {0};
  if (gethostname(name, sizeof(name) - 1) == 0) {
    try {
      return device_of_host(name);
    } catch (const std::exception&) {
    }
  }
  return device_of_host("127.0.0.1");
}

char* bytes(const void* data) { return static_cast<char*>(const_cast<void*>(data)); }

// What goes before an operand in `corten_gloo_allreduce_direct`.
struct Header {
  uint64_t signature;
  uint64_t length;
};

void check_header(const Header& own, const char* message, int rank) {
  Header other;
  std::memcpy(&other, message, sizeof(other));
  if (other.length != own.length) {
    throw std::runtime_error("ranks differ in the size of the tensor: rank " + std::to_string(rank) + " has " +
                             std::to_string(other.length) + " bytes, this rank " + std::to_string(own.length));
  }
  if (other.signature != own.signature) {
    throw std::runtime_error("ranks differ in the dtype or the reduction: rank " + std::to_string(rank) +
                             " has others than this rank");
  }
}

// Memory of this thread, aligned to 16 bytes, which stays until the thread ends.
char* scratch(size_t bytes) {
  thread_local std::vector<char> memory;
  if (memory.size() < bytes + 16) {
    memory.resize(bytes + 16);
  }
  const auto start = reinterpret_cast<uintptr_t>(memory.data());
  return memory.data() + (16 - start % 16) % 16;
}

// Options take the size of an element from a type; these ones set it directly.
struct AllreduceOptions : gloo::AllreduceOptions {
  using gloo::AllreduceOptions::AllreduceOptions;
  void set_elements(size_t count, size_t size) {
    impl_.elements = count;
    impl_.elementSize = size;
  }
};

struct ReduceOptions : gloo::ReduceOptions {
  using gloo::ReduceOptions::ReduceOptions;
  void set_elements(size_t count, size_t size) {
    elements = count;
    elementSize = size;
  }
};

template <typename Options>
Options options_for(CortenGlooContext* context, uint32_t tag, int64_t timeout_ms) {
  std::shared_ptr<gloo::Context> base = context->context;
  Options options(base);
  options.setTag(tag);
  options.setTimeout(Milliseconds(timeout_ms));
  return options;
}

}  // namespace

// The version of these functions, which a loader compares with its own.
EXPORT int corten_gloo_interface() { return 2; }

// gloo's version as one number: 10000 * major + 100 * minor + patch.
EXPORT int corten_gloo_version() { return GLOO_VERSION; }

// Listens on a network interface, at a host's address, or, with both null, at the address of this host's name.
EXPORT CortenGlooDevice* corten_gloo_device_new(const char* interface, const char* host, CortenGlooError error) {
  return created(error, [&] {
    auto result = std::make_unique<CortenGlooDevice>();
    if (interface != nullptr) {
      gloo::transport::tcp::attr attr;
      attr.iface = interface;
      result->device = gloo::transport::tcp::CreateDevice(attr);
    } else {
      result->device = host != nullptr ? device_of_host(host) : default_device();
    }
    return result.release();
  });
}

// Contexts of the device stay valid.
EXPORT void corten_gloo_device_free(CortenGlooDevice* device) { delete device; }

// Connects this rank to all others. `store` is used during this call only.
EXPORT CortenGlooContext* corten_gloo_context_new(CortenGlooDevice* device, int rank, int size,
                                                  const CortenGlooStore* store, int64_t timeout_ms,
                                                  CortenGlooError error) {
  return created(error, [&] {
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->setTimeout(Milliseconds(timeout_ms));
    connect(*context, std::make_shared<Store>(*store), device->device, 0);
    return new CortenGlooContext{std::move(context)};
  });
}

EXPORT void corten_gloo_context_free(CortenGlooContext* context) { delete context; }

// Ends every call of this context with an error, here and at the other ranks. Transfers from any rank are ended by
// `corten_gloo_abort`.
EXPORT void corten_gloo_context_close(CortenGlooContext* context) {
  CortenGlooError nothing{nullptr, 0};
  // A receive that times out is how gloo's public interface has every connection fail; closing alone lets calls of
  // this process wait on.
  guarded(nothing, [&] {
    char unused = 0;
    context->context->createUnboundBuffer(&unused, 1)->waitRecv(Milliseconds(1));
  });
  guarded(nothing, [&] { context->context->closeConnections(); });
}

// `data` is both operand and result.
EXPORT int corten_gloo_allreduce(CortenGlooContext* context, void* data, size_t count, size_t element_size,
                                 CortenGlooReduce reduce, void* user, uint32_t tag, int64_t timeout_ms,
                                 CortenGlooError error) {
  return guarded(error, [&] {
    auto options = options_for<AllreduceOptions>(context, tag, timeout_ms);
    options.setOutput(bytes(data), count * element_size);
    options.set_elements(count, element_size);
    options.setReduceFunction([=](void* out, const void* a, const void* b, size_t n) { reduce(user, out, a, b, n); });
    gloo::allreduce(options);
  });
}

// As `corten_gloo_allreduce`, for few bytes: every rank sends all of its operand to every other and combines them in
// the order of ranks, so that one exchange is waited for and not one for each rank. Operands have at most `capacity`
// bytes on every rank; `signature` is compared with the other ranks', and so is the size.
EXPORT int corten_gloo_allreduce_direct(CortenGlooContext* context, void* data, size_t count, size_t element_size,
                                        CortenGlooReduce reduce, void* user, size_t capacity, uint64_t signature,
                                        uint32_t tag, int64_t timeout_ms, CortenGlooError error) {
  return guarded(error, [&] {
    auto& ctx = *context->context;
    const size_t length = count * element_size;
    const auto deadline = Clock::now() + Milliseconds(timeout_ms);
    const uint64_t slot = gloo::Slot::build(kDirectSlotPrefix, tag);
    const size_t stride = sizeof(Header) + (capacity + 15) / 16 * 16;
    char* const messages = scratch(stride * ctx.size);
    auto message = [&](int rank) { return messages + rank * stride; };
    auto operand = [&](int rank) { return message(rank) + sizeof(Header); };
    const Header header{signature, length};
    std::memcpy(message(ctx.rank), &header, sizeof(header));
    std::memcpy(operand(ctx.rank), data, length);
    std::vector<Buffer> buffers(ctx.size);
    for (int distance = 1; distance < ctx.size; distance++) {
      const int source = (ctx.rank + distance) % ctx.size;
      buffers[source] = ctx.createUnboundBuffer(message(source), sizeof(Header) + capacity);
      buffers[source]->recv(source, slot);
    }
    auto& own = buffers[ctx.rank];
    own = ctx.createUnboundBuffer(message(ctx.rank), sizeof(Header) + length);
    for (int distance = 1; distance < ctx.size; distance++) {
      own->send((ctx.rank + ctx.size - distance) % ctx.size, slot);
    }
    for (int source = 0; source < ctx.size; source++) {
      if (source != ctx.rank) {
        buffers[source]->waitRecv(deadline);
        check_header(header, message(source), source);
      }
    }
    for (int distance = 1; distance < ctx.size; distance++) {
      own->waitSend(deadline);
    }
    for (int rank = 1; rank < ctx.size; rank++) {
      reduce(user, operand(0), operand(0), operand(rank), count);
    }
    std::memcpy(data, operand(0), length);
  });
}

// `data` is the operand; at `root` it is the result, elsewhere it is used as scratch memory.
EXPORT int corten_gloo_reduce(CortenGlooContext* context, void* data, size_t count, size_t element_size,
                              CortenGlooReduce reduce, void* user, int root, uint32_t tag, int64_t timeout_ms,
                              CortenGlooError error) {
  return guarded(error, [&] {
    auto options = options_for<ReduceOptions>(context, tag, timeout_ms);
    options.setOutput(bytes(data), count * element_size);
    options.set_elements(count, element_size);
    options.setRoot(root);
    options.setReduceFunction([=](void* out, const void* a, const void* b, size_t n) { reduce(user, out, a, b, n); });
    gloo::reduce(options);
  });
}

EXPORT int corten_gloo_broadcast(CortenGlooContext* context, void* data, size_t length, int root, uint32_t tag,
                                 int64_t timeout_ms, CortenGlooError error) {
  return guarded(error, [&] {
    auto options = options_for<gloo::BroadcastOptions>(context, tag, timeout_ms);
    options.setOutput(bytes(data), length);
    options.setRoot(root);
    gloo::broadcast(options);
  });
}

// `lengths` has the bytes of each rank, whose values follow each other in `output`; `input` is null where the output
// has this rank's already.
EXPORT int corten_gloo_allgather(CortenGlooContext* context, const void* input, void* output, const size_t* lengths,
                                 uint32_t tag, int64_t timeout_ms, CortenGlooError error) {
  return guarded(error, [&] {
    auto options = options_for<gloo::AllgathervOptions>(context, tag, timeout_ms);
    const int size = context->context->size;
    if (input != nullptr) {
      options.setInput(bytes(input), lengths[context->context->rank]);
    }
    options.setOutput(bytes(output), std::vector<size_t>(lengths, lengths + size));
    gloo::allgatherv(options);
  });
}

// `length` bytes of every rank follow each other in `output`, which only `root` needs.
EXPORT int corten_gloo_gather(CortenGlooContext* context, const void* input, size_t length, void* output, int root,
                              uint32_t tag, int64_t timeout_ms, CortenGlooError error) {
  return guarded(error, [&] {
    auto options = options_for<gloo::GatherOptions>(context, tag, timeout_ms);
    options.setInput(bytes(input), length);
    if (context->context->rank == root) {
      options.setOutput(bytes(output), length * context->context->size);
    }
    options.setRoot(root);
    gloo::gather(options);
  });
}

// `inputs` has `length` bytes for each rank; only `root` needs it.
EXPORT int corten_gloo_scatter(CortenGlooContext* context, const void* const* inputs, void* output, size_t length,
                               int root, uint32_t tag, int64_t timeout_ms, CortenGlooError error) {
  return guarded(error, [&] {
    auto options = options_for<gloo::ScatterOptions>(context, tag, timeout_ms);
    if (context->context->rank == root) {
      std::vector<char*> pointers;
      for (int rank = 0; rank < context->context->size; rank++) {
        pointers.push_back(bytes(inputs[rank]));
      }
      options.setInputs(pointers, length);
    }
    options.setOutput(bytes(output), length);
    options.setRoot(root);
    gloo::scatter(options);
  });
}

// The lengths are bytes to and from each rank; pieces follow each other in the order of ranks.
EXPORT int corten_gloo_alltoall(CortenGlooContext* context, const void* input, const int64_t* input_lengths,
                                void* output, const int64_t* output_lengths, uint32_t tag, int64_t timeout_ms,
                                CortenGlooError error) {
  return guarded(error, [&] {
    auto options = options_for<gloo::AlltoallvOptions>(context, tag, timeout_ms);
    const int size = context->context->size;
    options.setInput(bytes(input), std::vector<int64_t>(input_lengths, input_lengths + size));
    options.setOutput(bytes(output), std::vector<int64_t>(output_lengths, output_lengths + size));
    gloo::alltoallv(options);
  });
}

EXPORT int corten_gloo_barrier(CortenGlooContext* context, uint32_t tag, int64_t timeout_ms, CortenGlooError error) {
  return guarded(error, [&] {
    auto options = options_for<gloo::BarrierOptions>(context, tag, timeout_ms);
    gloo::barrier(options);
  });
}

// Starts to send `length` bytes to a rank.
EXPORT CortenGlooTransfer* corten_gloo_send(CortenGlooContext* context, const void* data, size_t length,
                                            int destination, uint64_t slot, CortenGlooError error) {
  return created(error, [&] {
    auto buffer = context->context->createUnboundBuffer(bytes(data), length);
    buffer->send(destination, slot, 0, length);
    return new CortenGlooTransfer{context->context, std::move(buffer)};
  });
}

// Starts to receive `length` bytes from a rank, or from whichever comes first where `source` is negative.
EXPORT CortenGlooTransfer* corten_gloo_recv(CortenGlooContext* context, void* data, size_t length, int source,
                                            uint64_t slot, CortenGlooError error) {
  return created(error, [&] {
    auto buffer = context->context->createUnboundBuffer(data, length);
    if (source >= 0) {
      buffer->recv(source, slot, 0, length);
    } else {
      std::vector<int> sources;
      for (int rank = 0; rank < context->context->size; rank++) {
        if (rank != context->context->rank) {
          sources.push_back(rank);
        }
      }
      buffer->recv(sources, slot, 0, length);
    }
    return new CortenGlooTransfer{context->context, std::move(buffer)};
  });
}

// Waits for the end of a transfer; `rank` becomes the other side's. `sending` tells its direction.
EXPORT int corten_gloo_wait(CortenGlooTransfer* transfer, int sending, int64_t timeout_ms, int* rank,
                            CortenGlooError error) {
  return guarded(error, [&] {
    const Milliseconds timeout(timeout_ms);
    const bool done = sending != 0 ? transfer->buffer->waitSend(rank, timeout) : transfer->buffer->waitRecv(rank, timeout);
    if (!done) {
      throw std::runtime_error("the transfer was aborted");
    }
  });
}

// Lets a wait of another thread return.
EXPORT void corten_gloo_abort(CortenGlooTransfer* transfer, int sending) {
  if (sending != 0) {
    transfer->buffer->abortWaitSend();
  } else {
    transfer->buffer->abortWaitRecv();
  }
}

EXPORT void corten_gloo_transfer_free(CortenGlooTransfer* transfer) { delete transfer; }
