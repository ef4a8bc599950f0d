/* For libraries of operators, which programs load with `corten_load_library`, `corten_c::load_library` of Rust or
 * `torch.ops.load_library` of Python. Such a library is linked to nothing of Corten: it gets the functions of
 * `corten.h` as a table, through which this header calls them.
 *
 * Written by `cargo xtask header` from crates/corten-c: changes belong there.
 *
 *     #include "corten_library.h"
 *
 *     CORTEN_LIBRARY_INIT(api) {
 *         CortenLibrary *library;
 *         CortenStatus status = corten_use_api(api);
 *         if (status == CORTEN_OK) status = corten_library_new("mine", &library);
 *         ...
 *         return status;
 *     }
 *
 * Of a library of several files one includes it as above; the others define CORTEN_LIBRARY_EXTERN before, and the
 * first defines CORTEN_LIBRARY_SHARED.
 */

#ifndef CORTEN_LIBRARY_H
#define CORTEN_LIBRARY_H

#include "corten.h"

struct CortenApi {
    size_t size;
    uint32_t version;
    uint32_t (*corten_abi_version)(void);
    const char * (*corten_version)(void);
    const char * (*corten_last_error)(void);
    CortenStatus (*corten_last_status)(void);
    CortenStatus (*corten_set_error)(CortenStatus status, const char *message);
    CortenStatus (*corten_manual_seed)(uint64_t seed);
    CortenStatus (*corten_generator_new)(uint64_t seed, struct CortenGenerator **generator);
    CortenStatus (*corten_generator_default)(struct CortenDevice device, struct CortenGenerator **generator);
    CortenStatus (*corten_generator_seed)(struct CortenGenerator *generator, uint64_t seed);
    void (*corten_generator_free)(struct CortenGenerator *generator);
    struct CortenTensor * (*corten_tensor_new_reference)(const struct CortenTensor *tensor);
    void (*corten_tensor_free)(struct CortenTensor *tensor);
    CortenStatus (*corten_tensor_downgrade)(const struct CortenTensor *tensor, struct CortenWeakTensor **weak);
    struct CortenTensor * (*corten_weak_upgrade)(const struct CortenWeakTensor *weak);
    void (*corten_weak_free)(struct CortenWeakTensor *weak);
    CortenStatus (*corten_tensor_empty)(const int64_t *sizes, size_t dim, CortenDType dtype, struct CortenDevice device, struct CortenTensor **tensor);
    CortenStatus (*corten_tensor_from_memory)(void *data, const int64_t *sizes, const int64_t *strides, size_t dim, CortenDType dtype, struct CortenDevice device, CortenDeleter deleter, void *context, struct CortenTensor **tensor);
    CortenStatus (*corten_tensor_from_copy)(const void *data, const int64_t *sizes, size_t dim, CortenDType dtype, struct CortenTensor **tensor);
    CortenStatus (*corten_tensor_copy_to)(const struct CortenTensor *tensor, void *data, size_t nbytes);
    int64_t (*corten_tensor_dim)(const struct CortenTensor *tensor);
    int64_t (*corten_tensor_numel)(const struct CortenTensor *tensor);
    CortenStatus (*corten_tensor_sizes)(const struct CortenTensor *tensor, int64_t *sizes, size_t capacity);
    CortenStatus (*corten_tensor_strides)(const struct CortenTensor *tensor, int64_t *strides, size_t capacity);
    int64_t (*corten_tensor_storage_offset)(const struct CortenTensor *tensor);
    CortenDType (*corten_tensor_dtype)(const struct CortenTensor *tensor);
    struct CortenDevice (*corten_tensor_device)(const struct CortenTensor *tensor);
    bool (*corten_tensor_is_contiguous)(const struct CortenTensor *tensor);
    bool (*corten_tensor_is_same)(const struct CortenTensor *a, const struct CortenTensor *b);
    CortenStatus (*corten_tensor_data)(const struct CortenTensor *tensor, void **data);
    CortenStatus (*corten_tensor_item)(const struct CortenTensor *tensor, double *number);
    size_t (*corten_dtype_itemsize)(CortenDType dtype);
    CortenStatus (*corten_operator_find)(const char *name, const char *overload, const struct CortenOperator **op);
    const char * (*corten_operator_name)(const struct CortenOperator *op);
    const char * (*corten_operator_schema)(const struct CortenOperator *op);
    CortenStatus (*corten_operator_call)(const struct CortenOperator *op, const struct CortenValue *inputs, size_t n_inputs, struct CortenValue *outputs, size_t *n_outputs);
    CortenStatus (*corten_call)(const char *name, const char *overload, const struct CortenValue *inputs, size_t n_inputs, struct CortenValue *outputs, size_t *n_outputs);
    CortenStatus (*corten_call_tensor)(const char *name, const char *overload, const struct CortenValue *inputs, size_t n_inputs, struct CortenTensor **tensor);
    CortenStatus (*corten_value_copy)(const struct CortenValue *value, struct CortenValue *copy);
    void (*corten_values_free)(struct CortenValue *values, size_t count);
    bool (*corten_tensor_requires_grad)(const struct CortenTensor *tensor);
    CortenStatus (*corten_tensor_set_requires_grad)(struct CortenTensor *tensor, bool requires_grad);
    bool (*corten_tensor_is_leaf)(const struct CortenTensor *tensor);
    CortenStatus (*corten_tensor_grad)(const struct CortenTensor *tensor, struct CortenTensor **grad);
    CortenStatus (*corten_tensor_set_grad)(struct CortenTensor *tensor, const struct CortenTensor *grad);
    CortenStatus (*corten_tensor_detach)(const struct CortenTensor *tensor, struct CortenTensor **detached);
    CortenStatus (*corten_backward)(struct CortenTensor *const *tensors, struct CortenTensor *const *grads, size_t count, bool retain_graph, bool create_graph);
    CortenStatus (*corten_grad)(struct CortenTensor *const *outputs, struct CortenTensor *const *grads, size_t n_outputs, struct CortenTensor *const *inputs, size_t n_inputs, bool retain_graph, bool create_graph, bool allow_unused, struct CortenTensor **results);
    bool (*corten_is_grad_enabled)(void);
    bool (*corten_set_grad_enabled)(bool enabled);
    bool (*corten_set_below_autograd)(bool below);
    CortenStatus (*corten_function_apply)(const struct CortenFunction *function, struct CortenTensor *const *inputs, size_t n_inputs, struct CortenTensor **outputs);
    CortenStatus (*corten_context_save)(struct CortenContext *context, struct CortenTensor *const *tensors, size_t count);
    CortenStatus (*corten_context_saved)(const struct CortenContext *context, size_t index, struct CortenTensor **tensor);
    CortenStatus (*corten_context_mark_dirty)(struct CortenContext *context, struct CortenTensor *const *tensors, size_t count);
    CortenStatus (*corten_context_mark_non_differentiable)(struct CortenContext *context, struct CortenTensor *const *tensors, size_t count);
    bool (*corten_context_needs_grad)(const struct CortenContext *context, size_t input);
    CortenStatus (*corten_library_new)(const char *namespace_, struct CortenLibrary **library);
    void (*corten_library_free)(struct CortenLibrary *library);
    CortenStatus (*corten_library_define)(struct CortenLibrary *library, const char *schema);
    CortenStatus (*corten_library_implement)(struct CortenLibrary *library, const char *name, const char *key, CortenKernel kernel, void *data, CortenFree free);
    CortenStatus (*corten_library_fallthrough)(struct CortenLibrary *library, const char *name, const char *key);
    CortenStatus (*corten_library_fallback)(struct CortenLibrary *library, const char *key, CortenKernel kernel, void *data, CortenFree free);
    CortenStatus (*corten_library_derivative)(struct CortenLibrary *library, const char *name, CortenDerivative backward, void *data, CortenFree free);
    const char * (*corten_kernel_operator)(const struct CortenKernelCall *call);
    CortenStatus (*corten_kernel_redispatch)(const struct CortenKernelCall *call, const struct CortenValue *inputs, size_t n_inputs, struct CortenValue *outputs, size_t *n_outputs);
    CortenStatus (*corten_load_library)(const char *path, bool *found);
    CortenStatus (*corten_save)(const char *path, const char *const *names, struct CortenTensor *const *tensors, size_t count);
    CortenStatus (*corten_load)(const char *path, struct CortenTensors **tensors);
    size_t (*corten_tensors_count)(const struct CortenTensors *tensors);
    const char * (*corten_tensors_name)(const struct CortenTensors *tensors, size_t index);
    struct CortenTensor * (*corten_tensors_get)(const struct CortenTensors *tensors, size_t index);
    struct CortenTensor * (*corten_tensors_find)(const struct CortenTensors *tensors, const char *name);
    void (*corten_tensors_free)(struct CortenTensors *tensors);
    CortenStatus (*corten_set_allocator)(int32_t device_type, const struct CortenAllocator *allocator, uint8_t priority, bool *taken);
};

#if defined(CORTEN_LIBRARY_EXTERN)
extern const struct CortenApi *corten_api;
#elif defined(CORTEN_LIBRARY_SHARED)
const struct CortenApi *corten_api;
#else
static const struct CortenApi *corten_api;
#endif

/* Uses a table: an error where the program is older than this header, or of another version. */
static inline CortenStatus corten_use_api(const struct CortenApi *api) {
    if (api->version != CORTEN_ABI_VERSION || api->size < sizeof(struct CortenApi)) {
        return api->corten_set_error(CORTEN_RUNTIME_ERROR,
                                     "the library was built for another version of Corten's C interface");
    }
    corten_api = api;
    return CORTEN_OK;
}

#ifdef __cplusplus
#define CORTEN_LIBRARY_INIT(api) extern "C" CortenStatus corten_library_init(const struct CortenApi *api)
#else
#define CORTEN_LIBRARY_INIT(api) CortenStatus corten_library_init(const struct CortenApi *api)
#endif

#define corten_abi_version (corten_api->corten_abi_version)
#define corten_version (corten_api->corten_version)
#define corten_last_error (corten_api->corten_last_error)
#define corten_last_status (corten_api->corten_last_status)
#define corten_set_error (corten_api->corten_set_error)
#define corten_manual_seed (corten_api->corten_manual_seed)
#define corten_generator_new (corten_api->corten_generator_new)
#define corten_generator_default (corten_api->corten_generator_default)
#define corten_generator_seed (corten_api->corten_generator_seed)
#define corten_generator_free (corten_api->corten_generator_free)
#define corten_tensor_new_reference (corten_api->corten_tensor_new_reference)
#define corten_tensor_free (corten_api->corten_tensor_free)
#define corten_tensor_downgrade (corten_api->corten_tensor_downgrade)
#define corten_weak_upgrade (corten_api->corten_weak_upgrade)
#define corten_weak_free (corten_api->corten_weak_free)
#define corten_tensor_empty (corten_api->corten_tensor_empty)
#define corten_tensor_from_memory (corten_api->corten_tensor_from_memory)
#define corten_tensor_from_copy (corten_api->corten_tensor_from_copy)
#define corten_tensor_copy_to (corten_api->corten_tensor_copy_to)
#define corten_tensor_dim (corten_api->corten_tensor_dim)
#define corten_tensor_numel (corten_api->corten_tensor_numel)
#define corten_tensor_sizes (corten_api->corten_tensor_sizes)
#define corten_tensor_strides (corten_api->corten_tensor_strides)
#define corten_tensor_storage_offset (corten_api->corten_tensor_storage_offset)
#define corten_tensor_dtype (corten_api->corten_tensor_dtype)
#define corten_tensor_device (corten_api->corten_tensor_device)
#define corten_tensor_is_contiguous (corten_api->corten_tensor_is_contiguous)
#define corten_tensor_is_same (corten_api->corten_tensor_is_same)
#define corten_tensor_data (corten_api->corten_tensor_data)
#define corten_tensor_item (corten_api->corten_tensor_item)
#define corten_dtype_itemsize (corten_api->corten_dtype_itemsize)
#define corten_operator_find (corten_api->corten_operator_find)
#define corten_operator_name (corten_api->corten_operator_name)
#define corten_operator_schema (corten_api->corten_operator_schema)
#define corten_operator_call (corten_api->corten_operator_call)
#define corten_call (corten_api->corten_call)
#define corten_call_tensor (corten_api->corten_call_tensor)
#define corten_value_copy (corten_api->corten_value_copy)
#define corten_values_free (corten_api->corten_values_free)
#define corten_tensor_requires_grad (corten_api->corten_tensor_requires_grad)
#define corten_tensor_set_requires_grad (corten_api->corten_tensor_set_requires_grad)
#define corten_tensor_is_leaf (corten_api->corten_tensor_is_leaf)
#define corten_tensor_grad (corten_api->corten_tensor_grad)
#define corten_tensor_set_grad (corten_api->corten_tensor_set_grad)
#define corten_tensor_detach (corten_api->corten_tensor_detach)
#define corten_backward (corten_api->corten_backward)
#define corten_grad (corten_api->corten_grad)
#define corten_is_grad_enabled (corten_api->corten_is_grad_enabled)
#define corten_set_grad_enabled (corten_api->corten_set_grad_enabled)
#define corten_set_below_autograd (corten_api->corten_set_below_autograd)
#define corten_function_apply (corten_api->corten_function_apply)
#define corten_context_save (corten_api->corten_context_save)
#define corten_context_saved (corten_api->corten_context_saved)
#define corten_context_mark_dirty (corten_api->corten_context_mark_dirty)
#define corten_context_mark_non_differentiable (corten_api->corten_context_mark_non_differentiable)
#define corten_context_needs_grad (corten_api->corten_context_needs_grad)
#define corten_library_new (corten_api->corten_library_new)
#define corten_library_free (corten_api->corten_library_free)
#define corten_library_define (corten_api->corten_library_define)
#define corten_library_implement (corten_api->corten_library_implement)
#define corten_library_fallthrough (corten_api->corten_library_fallthrough)
#define corten_library_fallback (corten_api->corten_library_fallback)
#define corten_library_derivative (corten_api->corten_library_derivative)
#define corten_kernel_operator (corten_api->corten_kernel_operator)
#define corten_kernel_redispatch (corten_api->corten_kernel_redispatch)
#define corten_load_library (corten_api->corten_load_library)
#define corten_save (corten_api->corten_save)
#define corten_load (corten_api->corten_load)
#define corten_tensors_count (corten_api->corten_tensors_count)
#define corten_tensors_name (corten_api->corten_tensors_name)
#define corten_tensors_get (corten_api->corten_tensors_get)
#define corten_tensors_find (corten_api->corten_tensors_find)
#define corten_tensors_free (corten_api->corten_tensors_free)
#define corten_set_allocator (corten_api->corten_set_allocator)

#endif /* CORTEN_LIBRARY_H */
