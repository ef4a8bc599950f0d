/* The C interface of Corten: tensors, every operator by name, gradients, and operators written in C.
 *
 * Written by `cargo xtask header` from crates/corten-c: changes belong there.
 *
 * Ownership. A `CortenTensor *` that a function gives out is a reference: `corten_tensor_free` gives it back, and
 * null stands for no tensor. Arguments are borrowed: a function keeps what it needs by itself. Results in a
 * `CortenValue` are the caller's until `corten_values_free`.
 *
 * Errors. Functions that can fail return a `CortenStatus`: `CORTEN_OK`, or the kind of the error, of which
 * `corten_last_error` has the message for the thread. Nothing that was asked for is written then. Functions that
 * return something else give null, -1, 0 or false. No panic leaves the library. A null handle is an error; a
 * pointer that is neither null nor alive is the program's defect, as everywhere in C.
 *
 * Threads. Every function can be called by any thread, and handles can be passed between threads; references are
 * counted atomically. Two threads may use one tensor, and reading is always possible; of writes to the same tensor at
 * the same time one is refused with an error or waits. That does not hold for what a program does with the address
 * of `corten_tensor_data`. A handle must not be freed while another thread uses the same reference: each takes its
 * own with `corten_tensor_new_reference`. Recording (`corten_set_grad_enabled`), being below autograd and the last
 * error belong to a thread. Kernels split long work over the library's own threads. Callbacks may be called by any
 * thread, of the library's own for the backward pass of another device, and also at the same time; they may call
 * every function. Deleters and `free` functions run on whichever thread gives up the last reference.
 *
 * Versions. Functions are added at the end of the table of `corten_library.h`; what changes the meaning of one, or
 * the size of a structure, raises `CORTEN_ABI_VERSION`.
 */

#ifndef CORTEN_H
#define CORTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 The host, as `type` of a `CortenDevice`.
 */
#define CORTEN_CPU 0

/*
 A GPU of NVIDIA.
 */
#define CORTEN_CUDA 1

/*
 Shapes and dtypes without data.
 */
#define CORTEN_META 14

/*
 The device of a back end from outside.
 */
#define CORTEN_PRIVATE_USE 20

/*
 The version of this ABI: what changes the meaning of a function, its arguments or the size of a structure
 raises it. Functions that are added do not.
 */
#define CORTEN_ABI_VERSION 1

/*
 The table of functions: `corten_library.h` has its members.
 */
typedef struct CortenApi CortenApi;

/*
 What the two directions of one call of a function share. It is valid while a callback runs.
 */
typedef struct CortenContext CortenContext;

/*
 A generator of random numbers.
 */
typedef struct CortenGenerator CortenGenerator;

/*
 A call on its way to a kernel of C. It ends with the kernel.
 */
typedef struct CortenKernelCall CortenKernelCall;

/*
 A namespace to define operators in and to add kernels to. What was defined and added stays when it is freed.
 */
typedef struct CortenLibrary CortenLibrary;

/*
 A value that C can only pass on.
 */
typedef struct CortenObject CortenObject;

/*
 An operator. It lives as long as the program.
 */
typedef struct CortenOperator CortenOperator;

/*
 A tensor: a reference to it, which is given back with `corten_tensor_free`.
 */
typedef struct CortenTensor CortenTensor;

/*
 Named tensors that were read from a file.
 */
typedef struct CortenTensors CortenTensors;

/*
 A reference that does not keep its tensor alive.
 */
typedef struct CortenWeakTensor CortenWeakTensor;

/*
 What became of a call: `CORTEN_OK`, or the kind of an error.
 */
typedef int32_t CortenStatus;

/*
 The type of the elements: one of the `CORTEN_…` dtypes, whose numbers are PyTorch's.
 */
typedef int32_t CortenDType;

/*
 A device: its type and which one of that type; -1 is the current one.
 */
typedef struct CortenDevice {
    /*
     The type, in PyTorch's numbers.
     */
    int32_t type;
    /*
     Which one, or -1.
     */
    int32_t index;
} CortenDevice;

/*
 Frees the context of foreign memory, from whatever thread.
 */
typedef void (*CortenDeleter)(void *context);

/*
 What a `CortenValue` holds.
 */
typedef uint32_t CortenTag;

/*
 The content of a `CortenValue`; its tag says which member counts.
 */
typedef union CortenContent {
    /*
     A tensor.
     */
    struct CortenTensor *tensor;
    /*
     An integer.
     */
    int64_t integer;
    /*
     A large integer.
     */
    uint64_t unsigned_integer;
    /*
     A number.
     */
    double number;
    /*
     A truth value.
     */
    bool boolean;
    /*
     Real and imaginary part.
     */
    double complex[2];
    /*
     Text.
     */
    const char *string;
    /*
     Integers.
     */
    const int64_t *integers;
    /*
     Numbers.
     */
    const double *numbers;
    /*
     Truth values.
     */
    const bool *booleans;
    /*
     Tensors.
     */
    struct CortenTensor *const *tensors;
    /*
     Values.
     */
    const struct CortenValue *values;
    /*
     A device.
     */
    struct CortenDevice device;
    /*
     The number of a dtype, a layout or a memory format.
     */
    int32_t code;
    /*
     A generator of random numbers.
     */
    struct CortenGenerator *generator;
    /*
     A value that C can only pass on.
     */
    struct CortenObject *object;
} CortenContent;

/*
 An argument or a result. Arguments are borrowed: whoever calls keeps what they point to. Results are the
 caller's, who gives them back with `corten_values_free`, or takes a tensor out.
 */
typedef struct CortenValue {
    /*
     What it holds.
     */
    CortenTag tag;
    /*
     The number of elements of a list, of bytes of a text; else 0.
     */
    size_t length;
    /*
     The content.
     */
    union CortenContent u;
} CortenValue;

/*
 Computes the outputs, `n_outputs` new references, from borrowed inputs. Nothing is recorded meanwhile.
 */
typedef CortenStatus (*CortenForward)(struct CortenContext *context,
                                      void *data,
                                      struct CortenTensor *const *inputs,
                                      size_t n_inputs,
                                      struct CortenTensor **outputs,
                                      size_t n_outputs);

/*
 Computes the gradients of the inputs, new references or null, from those of the outputs.
 */
typedef CortenStatus (*CortenBackward)(struct CortenContext *context,
                                       void *data,
                                       struct CortenTensor *const *grads,
                                       size_t n_grads,
                                       struct CortenTensor **results,
                                       size_t n_results);

/*
 Frees the data of callbacks.
 */
typedef void (*CortenFree)(void *data);

/*
 A differentiable function. Any thread may call its callbacks; `free`, unless it is null, is called with `data`
 when the graph that recorded the call is gone, or the call has failed.
 */
typedef struct CortenFunction {
    /*
     The name in the graph; null for none.
     */
    const char *name;
    /*
     How many outputs it has.
     */
    size_t n_outputs;
    /*
     Computes the outputs.
     */
    CortenForward forward;
    /*
     Computes the gradients.
     */
    CortenBackward backward;
    /*
     What the callbacks are called with.
     */
    void *data;
    /*
     Frees it.
     */
    CortenFree free;
} CortenFunction;

/*
 A kernel: computes `outputs`, of which there are as many as the schema says, from `inputs` in the order of the
 schema. Inputs are borrowed; outputs are values that the library then owns: new references of tensors, and
 lists made by `corten_value_copy`. Any thread may call it. Returns a status; for an error of its own it calls
 `corten_set_error`.
 */
typedef CortenStatus (*CortenKernel)(void *data,
                                     const struct CortenKernelCall *call,
                                     const struct CortenValue *inputs,
                                     size_t n_inputs,
                                     struct CortenValue *outputs,
                                     size_t n_outputs);

/*
 Computes the gradients of an operator's arguments: `grads` of its `n_outputs` results, null where there is
 none, come in; gradients of all tensors among the arguments, those of lists included, go out as new references
 in `results`, which are null where there is none. `inputs` are the arguments and `outputs` the results of the
 call. Any thread may call it.
 */
typedef CortenStatus (*CortenDerivative)(void *data,
                                         const struct CortenValue *inputs,
                                         size_t n_inputs,
                                         struct CortenTensor *const *outputs,
                                         struct CortenTensor *const *grads,
                                         size_t n_outputs,
                                         struct CortenTensor **results,
                                         size_t n_results);

/*
 Where the memory of a device comes from. Any thread may call its functions, for as long as the program runs.
 */
typedef struct CortenAllocator {
    /*
     What the functions are called with.
     */
    void *data;
    /*
     Allocates `nbytes` bytes, at least one, on the device of a number, -1 for the current one, aligned for
     elements of every dtype.
     */
    CortenStatus (*allocate)(void *data, size_t nbytes, int32_t index, void **memory);
    /*
     Frees what `allocate` gave.
     */
    void (*free)(void *data, void *memory, size_t nbytes);
    /*
     Copies bytes from one block of the device to another.
     */
    void (*copy)(void *data, void *destination, const void *source, size_t nbytes);
} CortenAllocator;

/*
 What a library of operators has under the name `corten_library_init`: it registers its operators through the
 functions of the table, which lives as long as the program.
 */
typedef CortenStatus (*CortenLibraryInit)(const struct CortenApi *api);

/*
 The call did what it should.
 */
#define CORTEN_OK 0

/*
 An error of no other kind: Python's RuntimeError.
 */
#define CORTEN_RUNTIME_ERROR 1

/*
 An index or a dimension out of range: IndexError.
 */
#define CORTEN_INDEX_ERROR 2

/*
 An argument of the right type with a wrong value: ValueError.
 */
#define CORTEN_VALUE_ERROR 3

/*
 An argument of a wrong type: TypeError.
 */
#define CORTEN_TYPE_ERROR 4

/*
 No kernel serves the arguments: NotImplementedError.
 */
#define CORTEN_NOT_IMPLEMENTED 5

/*
 Memory could not be allocated.
 */
#define CORTEN_OUT_OF_MEMORY 6

/*
 A device reported an error.
 */
#define CORTEN_ACCELERATOR_ERROR 7

/*
 Memory cannot be exchanged with another library: BufferError.
 */
#define CORTEN_BUFFER_ERROR 8

/*
 A matrix is singular, or an iteration did not converge.
 */
#define CORTEN_LINALG_ERROR 9

/*
 A device is absent.
 */
#define CORTEN_NO_DEVICE 10

/*
 A contradiction inside the library: a defect of it.
 */
#define CORTEN_INTERNAL_ERROR 11

/*
 An error of another language that travels through the library, such as a Python exception.
 */
#define CORTEN_EXTERNAL_ERROR 12

/*
 Unsigned integers of 8 bits.
 */
#define CORTEN_UINT8 0

/*
 Integers of 8 bits.
 */
#define CORTEN_INT8 1

/*
 Integers of 16 bits.
 */
#define CORTEN_INT16 2

/*
 Integers of 32 bits.
 */
#define CORTEN_INT32 3

/*
 Integers of 64 bits.
 */
#define CORTEN_INT64 4

/*
 IEEE half precision.
 */
#define CORTEN_FLOAT16 5

/*
 IEEE single precision.
 */
#define CORTEN_FLOAT32 6

/*
 IEEE double precision.
 */
#define CORTEN_FLOAT64 7

/*
 Complex numbers of single precision.
 */
#define CORTEN_COMPLEX64 9

/*
 Complex numbers of double precision.
 */
#define CORTEN_COMPLEX128 10

/*
 Truth values of a byte.
 */
#define CORTEN_BOOLEAN 11

/*
 Floats of 16 bits with the range of single precision.
 */
#define CORTEN_BFLOAT16 15

/*
 Nothing: an optional argument that is absent.
 */
#define CORTEN_NONE 0

/*
 `u.tensor`; null for an undefined one.
 */
#define CORTEN_TENSOR 1

/*
 `u.integer`.
 */
#define CORTEN_INT 2

/*
 `u.number`.
 */
#define CORTEN_DOUBLE 3

/*
 `u.boolean`.
 */
#define CORTEN_BOOL 4

/*
 `u.complex`: real and imaginary part.
 */
#define CORTEN_COMPLEX 5

/*
 `u.string`: text in UTF-8 that ends with a zero byte.
 */
#define CORTEN_STRING 6

/*
 `u.integers`, `length` of them.
 */
#define CORTEN_INT_LIST 7

/*
 `u.numbers`, `length` of them.
 */
#define CORTEN_DOUBLE_LIST 8

/*
 `u.booleans`, `length` of them.
 */
#define CORTEN_BOOL_LIST 9

/*
 `u.tensors`, `length` of them.
 */
#define CORTEN_TENSOR_LIST 10

/*
 `u.tensors`, of which some are null.
 */
#define CORTEN_OPTIONAL_TENSOR_LIST 11

/*
 `u.values`: `length` numbers of any kind.
 */
#define CORTEN_SCALAR_LIST 12

/*
 `u.device`.
 */
#define CORTEN_DEVICE 13

/*
 `u.code`: one of the dtypes.
 */
#define CORTEN_DTYPE 14

/*
 `u.code`: 0 for strided tensors, and PyTorch's numbers for others.
 */
#define CORTEN_LAYOUT 15

/*
 `u.code`: 0 contiguous, 1 as the input, 2 channels last, 3 channels last in three dimensions.
 */
#define CORTEN_MEMORY_FORMAT 16

/*
 `u.generator`.
 */
#define CORTEN_GENERATOR 17

/*
 `u.unsigned_integer`, for numbers above INT64_MAX.
 */
#define CORTEN_UINT 18

/*
 `u.values`: `length` values of any kind.
 */
#define CORTEN_TUPLE 19

/*
 `u.object`: a value that C can only pass on.
 */
#define CORTEN_OBJECT 20

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The message of the last error of this thread; empty if there was none. It stays valid until the next call of
 this thread that fails.
 */
const char *corten_last_error(void);

/*
 The status of the last error of this thread; `CORTEN_OK` if there was none.
 */
CortenStatus corten_last_status(void);

/*
 Says why a callback fails, which then returns `status`. Returns `status`.
 */
CortenStatus corten_set_error(CortenStatus status, const char *message);

/*
 One more reference to a tensor; null gives null.
 */
struct CortenTensor *corten_tensor_new_reference(const struct CortenTensor *tensor);

/*
 Gives a reference back; null is allowed.
 */
void corten_tensor_free(struct CortenTensor *tensor);

/*
 A weak reference: the tensor may die while it is held.
 */
CortenStatus corten_tensor_downgrade(const struct CortenTensor *tensor, struct CortenWeakTensor **weak);

/*
 A reference to the tensor of a weak one; null when it is gone.
 */
struct CortenTensor *corten_weak_upgrade(const struct CortenWeakTensor *weak);

/*
 Gives a weak reference back; null is allowed.
 */
void corten_weak_free(struct CortenWeakTensor *weak);

/*
 A tensor of whatever the memory holds.
 */
CortenStatus corten_tensor_empty(const int64_t *sizes,
                                 size_t dim,
                                 CortenDType dtype,
                                 struct CortenDevice device,
                                 struct CortenTensor **tensor);

/*
 A tensor over memory of the program's. `strides` counts elements; null means that the last dimension varies
 fastest. `deleter`, unless it is null, is called with `context` when no tensor uses the memory any more, by
 whichever thread that is. After an error it is not called: the memory stays the caller's.
 */
CortenStatus corten_tensor_from_memory(void *data,
                                       const int64_t *sizes,
                                       const int64_t *strides,
                                       size_t dim,
                                       CortenDType dtype,
                                       struct CortenDevice device,
                                       CortenDeleter deleter,
                                       void *context,
                                       struct CortenTensor **tensor);

/*
 A contiguous tensor on the host with a copy of the program's elements, which lie in order.
 */
CortenStatus corten_tensor_from_copy(const void *data,
                                     const int64_t *sizes,
                                     size_t dim,
                                     CortenDType dtype,
                                     struct CortenTensor **tensor);

/*
 Copies the elements in order, from whatever device, to `nbytes` bytes of the program's.
 */
CortenStatus corten_tensor_copy_to(const struct CortenTensor *tensor, void *data, size_t nbytes);

/*
 The number of dimensions; -1 for a null handle.
 */
int64_t corten_tensor_dim(const struct CortenTensor *tensor);

/*
 The number of elements; -1 for a null handle.
 */
int64_t corten_tensor_numel(const struct CortenTensor *tensor);

/*
 The sizes, as many as there are dimensions, to a place for `capacity` of them.
 */
CortenStatus corten_tensor_sizes(const struct CortenTensor *tensor, int64_t *sizes, size_t capacity);

/*
 The strides in elements, as `corten_tensor_sizes`.
 */
CortenStatus corten_tensor_strides(const struct CortenTensor *tensor, int64_t *strides, size_t capacity);

/*
 The place of the first element in its storage, in elements; -1 for a null handle.
 */
int64_t corten_tensor_storage_offset(const struct CortenTensor *tensor);

/*
 The dtype; -1 for a null handle.
 */
CortenDType corten_tensor_dtype(const struct CortenTensor *tensor);

/*
 Bytes of an element of a dtype; 0 for a number that is none.
 */
size_t corten_dtype_itemsize(CortenDType dtype);

/*
 The device; its type is -1 for a null handle.
 */
struct CortenDevice corten_tensor_device(const struct CortenTensor *tensor);

/*
 Whether the last dimension varies fastest and there are no gaps.
 */
bool corten_tensor_is_contiguous(const struct CortenTensor *tensor);

/*
 Whether two handles are of one tensor.
 */
bool corten_tensor_is_same(const struct CortenTensor *a, const struct CortenTensor *b);

/*
 The address of the element with all indices zero: null without elements. The memory stays where it is while
 the tensor lives and is not resized, and every element lies in it. The library does not see what a program
 reads and writes there: it must not do so while another thread writes the tensor, and autograd does not learn
 of it.
 */
CortenStatus corten_tensor_data(const struct CortenTensor *tensor, void **data);

/*
 The only element of a tensor as a number.
 */
CortenStatus corten_tensor_item(const struct CortenTensor *tensor, double *number);

/*
 Seeds the default generators of all devices.
 */
CortenStatus corten_manual_seed(uint64_t seed);

/*
 A generator with a stream of its own, for operators that take one. Only those of the host can be made.
 */
CortenStatus corten_generator_new(uint64_t seed, struct CortenGenerator **generator);

/*
 The default generator of a device.
 */
CortenStatus corten_generator_default(struct CortenDevice device, struct CortenGenerator **generator);

/*
 Starts the stream of a seed.
 */
CortenStatus corten_generator_seed(struct CortenGenerator *generator, uint64_t seed);

/*
 Gives a generator back; null is allowed.
 */
void corten_generator_free(struct CortenGenerator *generator);

/*
 An operator by name, such as `add` and `Tensor`, or `torchvision::nms` and null. The namespace is `aten` unless
 the name has one; the overload may be null or empty, and may stand after a dot in the name.
 */
CortenStatus corten_operator_find(const char *name,
                                  const char *overload,
                                  const struct CortenOperator **op);

/*
 The name with namespace and overload, such as `aten::add.Tensor`.
 */
const char *corten_operator_name(const struct CortenOperator *op);

/*
 The schema, such as `aten::neg(Tensor self) -> Tensor`.
 */
const char *corten_operator_schema(const struct CortenOperator *op);

/*
 Calls an operator: `corten_operator_find` and `corten_operator_call` in one.
 */
CortenStatus corten_call(const char *name,
                         const char *overload,
                         const struct CortenValue *inputs,
                         size_t n_inputs,
                         struct CortenValue *outputs,
                         size_t *n_outputs);

/*
 Calls an operator with arguments in the order of its schema; those at the end that have a default may be left
 out. `n_outputs` holds how many results there is room for, and then how many there are; null stands for no
 room. The results are the caller's.
 */
CortenStatus corten_operator_call(const struct CortenOperator *op,
                                  const struct CortenValue *inputs,
                                  size_t n_inputs,
                                  struct CortenValue *outputs,
                                  size_t *n_outputs);

/*
 Calls an operator whose only result is a tensor.
 */
CortenStatus corten_call_tensor(const char *name,
                                const char *overload,
                                const struct CortenValue *inputs,
                                size_t n_inputs,
                                struct CortenTensor **tensor);

/*
 A copy of a value that owns what it holds, as results do: kernels return lists so.
 */
CortenStatus corten_value_copy(const struct CortenValue *value, struct CortenValue *copy);

/*
 Frees what results own and makes them absent: tensors, lists, text. A result that was taken out is skipped
 when its tag is set to `CORTEN_NONE`.
 */
void corten_values_free(struct CortenValue *values, size_t count);

/*
 Whether operations on the tensor are recorded.
 */
bool corten_tensor_requires_grad(const struct CortenTensor *tensor);

/*
 Starts or ends recording of what is done with a leaf.
 */
CortenStatus corten_tensor_set_requires_grad(struct CortenTensor *tensor, bool requires_grad);

/*
 Whether the tensor was made by the program and not by a recorded operation.
 */
bool corten_tensor_is_leaf(const struct CortenTensor *tensor);

/*
 The gradient that backward passes have accumulated, a new reference; null where there is none.
 */
CortenStatus corten_tensor_grad(const struct CortenTensor *tensor, struct CortenTensor **grad);

/*
 Replaces the gradient; null takes it away.
 */
CortenStatus corten_tensor_set_grad(struct CortenTensor *tensor, const struct CortenTensor *grad);

/*
 The same elements without history, in the same memory.
 */
CortenStatus corten_tensor_detach(const struct CortenTensor *tensor, struct CortenTensor **detached);

/*
 Adds the gradients of `count` tensors to those of the leaves that they were made from. `grads` has the
 gradient of each; null, also for all, stands for one and is allowed for tensors of one element. `retain_graph`
 allows a second pass, `create_graph` records this one.
 */
CortenStatus corten_backward(struct CortenTensor *const *tensors,
                             struct CortenTensor *const *grads,
                             size_t count,
                             bool retain_graph,
                             bool create_graph);

/*
 The gradients of `n_outputs` tensors with respect to `n_inputs` others, as new references in `results`;
 gradients of leaves stay as they are. An input that no output depends on is an error, unless `allow_unused`:
 then its gradient is null.
 */
CortenStatus corten_grad(struct CortenTensor *const *outputs,
                         struct CortenTensor *const *grads,
                         size_t n_outputs,
                         struct CortenTensor *const *inputs,
                         size_t n_inputs,
                         bool retain_graph,
                         bool create_graph,
                         bool allow_unused,
                         struct CortenTensor **results);

/*
 Whether this thread records operations.
 */
bool corten_is_grad_enabled(void);

/*
 Turns recording on or off in this thread, and returns what it was: `bool was = corten_set_grad_enabled(false)`
 before and `corten_set_grad_enabled(was)` after a block are PyTorch's `no_grad`.
 */
bool corten_set_grad_enabled(bool enabled);

/*
 Sends the calls of this thread below autograd, or no longer, and returns what it was. Kernels at autograd keys
 compute their results so.
 */
bool corten_set_below_autograd(bool below);

/*
 Calls a function and records it. `outputs` receives as many new references as the function has outputs.
 */
CortenStatus corten_function_apply(const struct CortenFunction *function,
                                   struct CortenTensor *const *inputs,
                                   size_t n_inputs,
                                   struct CortenTensor **outputs);

/*
 Keeps inputs and outputs for the backward direction.
 */
CortenStatus corten_context_save(struct CortenContext *context,
                                 struct CortenTensor *const *tensors,
                                 size_t count);

/*
 Says which inputs the function has written to. It must return them.
 */
CortenStatus corten_context_mark_dirty(struct CortenContext *context,
                                       struct CortenTensor *const *tensors,
                                       size_t count);

/*
 Says which outputs have no gradient.
 */
CortenStatus corten_context_mark_non_differentiable(struct CortenContext *context,
                                                    struct CortenTensor *const *tensors,
                                                    size_t count);

/*
 The tensor of a number that the forward callback saved, a new reference.
 */
CortenStatus corten_context_saved(const struct CortenContext *context,
                                  size_t index,
                                  struct CortenTensor **tensor);

/*
 Whether an input requires a gradient.
 */
bool corten_context_needs_grad(const struct CortenContext *context, size_t input);

/*
 A library for a namespace.
 */
CortenStatus corten_library_new(const char *namespace_, struct CortenLibrary **library);

/*
 Gives a library back; null is allowed.
 */
void corten_library_free(struct CortenLibrary *library);

/*
 Defines an operator from its schema without the namespace, such as `twice(Tensor self) -> Tensor`.
 */
CortenStatus corten_library_define(struct CortenLibrary *library, const char *schema);

/*
 Adds a kernel to an operator at a dispatch key, such as `CPU`, `CompositeExplicitAutograd` (for every device)
 or `Autograd`. `free`, unless it is null, frees `data` after an error, or else when the kernel is gone.
 */
CortenStatus corten_library_implement(struct CortenLibrary *library,
                                      const char *name,
                                      const char *key,
                                      CortenKernel kernel,
                                      void *data,
                                      CortenFree free);

/*
 Lets calls of an operator pass a dispatch key.
 */
CortenStatus corten_library_fallthrough(struct CortenLibrary *library, const char *name, const char *key);

/*
 Sets the kernel of every operator that has none at a dispatch key, for instance of a device of another.
 */
CortenStatus corten_library_fallback(struct CortenLibrary *library,
                                     const char *key,
                                     CortenKernel kernel,
                                     void *data,
                                     CortenFree free);

/*
 Gives an operator that returns tensors and writes to none of its arguments a derivative. Its kernels, at keys
 of devices or at `CompositeExplicitAutograd`, are then called without recording.
 */
CortenStatus corten_library_derivative(struct CortenLibrary *library,
                                       const char *name,
                                       CortenDerivative backward,
                                       void *data,
                                       CortenFree free);

/*
 The name of the operator that a kernel is called for. It stays valid until the next call of this function in
 this thread.
 */
const char *corten_kernel_operator(const struct CortenKernelCall *call);

/*
 Calls the kernel below the one that handles a call, with arguments and results as of `corten_operator_call`.
 */
CortenStatus corten_kernel_redispatch(const struct CortenKernelCall *call,
                                      const struct CortenValue *inputs,
                                      size_t n_inputs,
                                      struct CortenValue *outputs,
                                      size_t *n_outputs);

/*
 Writes `count` named tensors to a file, which appears when it is complete: `….safetensors` in the format of
 that name, any other as PyTorch writes a state dict.
 */
CortenStatus corten_save(const char *path,
                         const char *const *names,
                         struct CortenTensor *const *tensors,
                         size_t count);

/*
 Reads the named tensors of a file: `….safetensors` and `….npz` in these formats, any other as PyTorch's, of
 which nothing is run. Of a dictionary in a dictionary the tensors have both keys with a dot between them.
 */
CortenStatus corten_load(const char *path,
                         struct CortenTensors **tensors);

/*
 How many tensors there are.
 */
size_t corten_tensors_count(const struct CortenTensors *tensors);

/*
 The name of a tensor, which lives as long as the list; null beyond the end.
 */
const char *corten_tensors_name(const struct CortenTensors *tensors, size_t index);

/*
 A tensor, a new reference; null beyond the end.
 */
struct CortenTensor *corten_tensors_get(const struct CortenTensors *tensors, size_t index);

/*
 The tensor of a name, a new reference; null if there is none.
 */
struct CortenTensor *corten_tensors_find(const struct CortenTensors *tensors, const char *name);

/*
 Gives a list back; null is allowed.
 */
void corten_tensors_free(struct CortenTensors *tensors);

/*
 Loads a library of operators, as `torch.ops.load_library` of Python does: one that was built with
 `corten_library.h` registers them in its `corten_library_init`. Its operators are called by name. `found`, unless
 it is null, says whether the library has that function.
 */
CortenStatus corten_load_library(const char *path,
                                 bool *found);

/*
 Makes an allocator the source of memory of a device type, unless one of higher priority is set. `taken`, unless
 it is null, says whether it was.
 */
CortenStatus corten_set_allocator(int32_t device_type,
                                  const struct CortenAllocator *allocator,
                                  uint8_t priority,
                                  bool *taken);

/*
 The version of the ABI that the library has; the header's is `CORTEN_ABI_VERSION`.
 */
uint32_t corten_abi_version(void);

/*
 The version of Corten, such as `0.1.0`.
 */
const char *corten_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CORTEN_H */

/* Values of arguments. */

/* Absent. */
static inline CortenValue corten_none(void) {
    CortenValue value = {CORTEN_NONE, 0, {0}};
    return value;
}

/* A tensor; null for an undefined one. */
static inline CortenValue corten_of_tensor(CortenTensor *tensor) {
    CortenValue value = corten_none();
    value.tag = CORTEN_TENSOR;
    value.u.tensor = tensor;
    return value;
}

/* An integer. */
static inline CortenValue corten_of_int(int64_t integer) {
    CortenValue value = corten_none();
    value.tag = CORTEN_INT;
    value.u.integer = integer;
    return value;
}

/* A number. */
static inline CortenValue corten_of_double(double number) {
    CortenValue value = corten_none();
    value.tag = CORTEN_DOUBLE;
    value.u.number = number;
    return value;
}

/* A complex number. */
static inline CortenValue corten_of_complex(double re, double im) {
    CortenValue value = corten_none();
    value.tag = CORTEN_COMPLEX;
    value.u.complex[0] = re;
    value.u.complex[1] = im;
    return value;
}

/* A truth value. */
static inline CortenValue corten_of_bool(bool boolean) {
    CortenValue value = corten_none();
    value.tag = CORTEN_BOOL;
    value.u.boolean = boolean;
    return value;
}

/* Text. */
static inline CortenValue corten_of_string(const char *string) {
    CortenValue value = corten_none();
    value.tag = CORTEN_STRING;
    value.u.string = string;
    return value;
}

/* A list of integers. */
static inline CortenValue corten_of_ints(const int64_t *integers, size_t length) {
    CortenValue value = corten_none();
    value.tag = CORTEN_INT_LIST;
    value.length = length;
    value.u.integers = integers;
    return value;
}

/* A list of numbers. */
static inline CortenValue corten_of_doubles(const double *numbers, size_t length) {
    CortenValue value = corten_none();
    value.tag = CORTEN_DOUBLE_LIST;
    value.length = length;
    value.u.numbers = numbers;
    return value;
}

/* A list of truth values. */
static inline CortenValue corten_of_bools(const bool *booleans, size_t length) {
    CortenValue value = corten_none();
    value.tag = CORTEN_BOOL_LIST;
    value.length = length;
    value.u.booleans = booleans;
    return value;
}

/* A list of tensors. */
static inline CortenValue corten_of_tensors(CortenTensor *const *tensors, size_t length) {
    CortenValue value = corten_none();
    value.tag = CORTEN_TENSOR_LIST;
    value.length = length;
    value.u.tensors = tensors;
    return value;
}

/* A list of tensors for an operator that takes absent ones, which are null. */
static inline CortenValue corten_of_optional_tensors(CortenTensor *const *tensors, size_t length) {
    CortenValue value = corten_of_tensors(tensors, length);
    value.tag = CORTEN_OPTIONAL_TENSOR_LIST;
    return value;
}

/* A list of numbers of any kind. */
static inline CortenValue corten_of_scalars(const CortenValue *values, size_t length) {
    CortenValue value = corten_none();
    value.tag = CORTEN_SCALAR_LIST;
    value.length = length;
    value.u.values = values;
    return value;
}

/* A dtype. */
static inline CortenValue corten_of_dtype(CortenDType dtype) {
    CortenValue value = corten_none();
    value.tag = CORTEN_DTYPE;
    value.u.code = dtype;
    return value;
}

/* A memory format: 0 contiguous, 1 as the input, 2 channels last. */
static inline CortenValue corten_of_memory_format(int32_t format) {
    CortenValue value = corten_none();
    value.tag = CORTEN_MEMORY_FORMAT;
    value.u.code = format;
    return value;
}

/* A layout: 0 for strided tensors. */
static inline CortenValue corten_of_layout(int32_t layout) {
    CortenValue value = corten_none();
    value.tag = CORTEN_LAYOUT;
    value.u.code = layout;
    return value;
}

/* A device. */
static inline CortenValue corten_of_device(CortenDevice device) {
    CortenValue value = corten_none();
    value.tag = CORTEN_DEVICE;
    value.u.device = device;
    return value;
}

/* A generator of random numbers. */
static inline CortenValue corten_of_generator(CortenGenerator *generator) {
    CortenValue value = corten_none();
    value.tag = CORTEN_GENERATOR;
    value.u.generator = generator;
    return value;
}

/* The host. */
static inline CortenDevice corten_cpu(void) {
    CortenDevice device = {CORTEN_CPU, -1};
    return device;
}
