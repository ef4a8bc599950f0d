/* The functions of PyTorch's stable C ABI that the tests of this folder call, so that they need no PyTorch. */

#ifndef STABLE_ABI_H
#define STABLE_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t Status;
typedef uint64_t Word;
typedef struct Tensor *Handle;
typedef struct Library *LibraryHandle;
typedef struct List *ListHandle;
typedef struct Text *TextHandle;
typedef struct Generator *GeneratorHandle;
typedef void (*Kernel)(Word *words, uint64_t arguments, uint64_t results);
typedef void (*RangeFunction)(int64_t begin, int64_t end, void *context);
typedef struct {
    float real, imaginary;
} Complex64;
typedef struct {
    double real, imaginary;
} Complex128;

uint64_t aoti_torch_abi_version(void);
const char *torch_exception_get_what(void);
const char *torch_exception_get_what_without_backtrace(void);

int32_t aoti_torch_device_type_cpu(void);
int32_t aoti_torch_device_type_cuda(void);
int32_t aoti_torch_device_type_meta(void);
int32_t aoti_torch_dtype_float32(void);
int32_t aoti_torch_dtype_float64(void);
int32_t aoti_torch_dtype_int64(void);
int32_t aoti_torch_dtype_bool(void);
int32_t aoti_torch_dtype_bfloat16(void);
int32_t aoti_torch_layout_strided(void);
int32_t aoti_torch_layout_sparse_coo(void);
int32_t aoti_torch_memory_format_channels_last(void);
size_t aoti_torch_dtype_element_size(int32_t dtype);
int32_t torch_tag_core(void);

Status aoti_torch_library_init_def(const char *name, const char *file, uint32_t line, LibraryHandle *made);
Status aoti_torch_library_init_fragment(const char *name, const char *file, uint32_t line, LibraryHandle *made);
Status aoti_torch_library_init_impl(const char *name, const char *key, const char *file, uint32_t line,
                                    LibraryHandle *made);
Status aoti_torch_library_def(LibraryHandle library, const char *schema);
Status torch_library_def_with_tags(LibraryHandle library, const char *schema, const int32_t *tags, int32_t count);
Status torch_library_set_python_module(LibraryHandle library, const char *module, const char *context);
Status aoti_torch_library_impl(LibraryHandle library, const char *name, Kernel kernel);
Status torch_library_impl(LibraryHandle library, const char *name, Kernel kernel, uint64_t version);
Status aoti_torch_delete_library_object(LibraryHandle library);
Status aoti_torch_call_dispatcher(const char *name, const char *overload, Word *words);
Status torch_call_dispatcher(const char *name, const char *overload, Word *words, uint64_t version);

Status torch_new_list_reserve_size(size_t size, ListHandle *made);
Status torch_list_size(ListHandle list, size_t *size);
Status torch_list_get_item(ListHandle list, size_t index, Word *word);
Status torch_list_set_item(ListHandle list, size_t index, Word word);
Status torch_list_push_back(ListHandle list, Word word);
Status torch_delete_list(ListHandle list);
Status torch_new_string_handle(const char *data, size_t length, TextHandle *made);
Status torch_string_length(TextHandle text, size_t *length);
Status torch_string_c_str(TextHandle text, const char **data);
Status torch_delete_string(TextHandle text);
Status torch_new_stable_ivalue(Word **made);
Status torch_delete_stable_ivalue(Word *word);

Status aoti_torch_new_tensor_handle(Handle tensor, Handle *made);
Status aoti_torch_delete_tensor_object(Handle tensor);
Status aoti_torch_new_uninitialized_tensor(Handle *made);
Status aoti_torch_assign_tensors(Handle from, Handle to);
Status aoti_torch_assign_tensors_out(Handle from, Handle *made);
Status aoti_torch_get_data_ptr(Handle tensor, void **data);
Status torch_get_mutable_data_ptr(Handle tensor, void **data);
Status torch_get_const_data_ptr(Handle tensor, const void **data);
Status aoti_torch_get_storage_size(Handle tensor, int64_t *nbytes);
Status aoti_torch_get_storage_numel(Handle tensor, int64_t *numel);
Status aoti_torch_get_dim(Handle tensor, int64_t *dim);
Status aoti_torch_get_numel(Handle tensor, int64_t *numel);
Status aoti_torch_get_sizes(Handle tensor, int64_t **sizes);
Status aoti_torch_get_strides(Handle tensor, int64_t **strides);
Status aoti_torch_get_size(Handle tensor, int64_t dim, int64_t *size);
Status aoti_torch_get_stride(Handle tensor, int64_t dim, int64_t *stride);
Status aoti_torch_get_dtype(Handle tensor, int32_t *dtype);
Status aoti_torch_get_device_type(Handle tensor, int32_t *type);
Status aoti_torch_get_device_index(Handle tensor, int32_t *index);
Status aoti_torch_get_layout(Handle tensor, int32_t *layout);
Status aoti_torch_get_storage_offset(Handle tensor, int64_t *offset);
Status aoti_torch_is_contiguous(Handle tensor, bool *contiguous);
Status aoti_torch_is_defined(Handle tensor, bool *defined);
Status torch_has_storage(Handle tensor, bool *has_storage);
Status torch_set_requires_grad(Handle tensor, bool requires_grad);
bool aoti_torch_grad_mode_is_enabled(void);
void aoti_torch_grad_mode_set_enabled(bool enabled);

Status aoti_torch_empty_strided(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                                int32_t device_type, int32_t device_index, Handle *made);
Status aoti_torch_as_strided(Handle tensor, const int64_t *sizes, const int64_t *strides, Handle *made);
Status aoti_torch__reinterpret_tensor(Handle tensor, int64_t ndim, const int64_t *sizes, const int64_t *strides,
                                      int64_t offset, Handle *made);
Status aoti_torch__alloc_from_pool(Handle pool, int64_t offset_bytes, int32_t dtype, int64_t ndim,
                                   const int64_t *sizes, const int64_t *strides, Handle *made);
Status aoti_torch_create_tensor_from_blob(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides,
                                          int64_t offset, int32_t dtype, int32_t device_type, int32_t device_index,
                                          Handle *made);
Status torch_from_blob(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                       int32_t dtype, int32_t device_type, int32_t device_index, Handle *made, int32_t layout,
                       const uint8_t *metadata, int64_t metadata_size, void (*deleter)(void *, void *),
                       void *context);
Status aoti_torch_clone(Handle tensor, Handle *made);
Status aoti_torch_clone_preserve_strides(Handle tensor, Handle *made);
Status aoti_torch_tensor_copy_(Handle from, Handle to);
Status aoti_torch_copy_(Handle to, Handle from, int32_t non_blocking);
Status aoti_torch_zero_(Handle tensor);
Status aoti_torch_item_float64(Handle tensor, double *item);
Status aoti_torch_item_int8(Handle tensor, int8_t *item);
Status aoti_torch_item_bool(Handle tensor, bool *item);
Status aoti_torch_item_bfloat16(Handle tensor, uint16_t *item);
Status aoti_torch_item_complex64(Handle tensor, Complex64 *item);
Status aoti_torch_scalar_to_tensor_float64(double value, Handle *made);
Status aoti_torch_scalar_to_tensor_float32(float value, Handle *made);
Status aoti_torch_scalar_to_tensor_int64(int64_t value, Handle *made);
Status aoti_torch_scalar_to_tensor_uint8(uint8_t value, Handle *made);
Status aoti_torch_scalar_to_tensor_complex64(Complex64 value, Handle *made);
Status aoti_torch_scalar_to_tensor_complex128(Complex128 value, Handle *made);

Status torch_parse_device_string(const char *text, uint32_t *type, int32_t *index);
Status torch_parallel_for(int64_t begin, int64_t end, int64_t grain, RangeFunction function, void *context);
Status torch_get_thread_idx(uint32_t *index);
Status torch_get_num_threads(uint32_t *count);
Status aoti_torch_create_device_guard(int32_t index, void **made);
Status aoti_torch_get_current_device_index(int32_t *index);
Status aoti_torch_get_current_cuda_stream(int32_t index, void **stream);
Status torch_c10_cuda_check_msg(int32_t code, const char *file, const char *function, uint32_t line, bool assertions,
                                char **message);
void torch_c10_cuda_free_error_msg(char *message);
Status torch_new_generator_handle(GeneratorHandle generator, GeneratorHandle *made);
Status torch_delete_generator(GeneratorHandle generator);
Status torch_generator_get_device(GeneratorHandle generator, int32_t *type, int32_t *index);
Status aoti_torch_check_inf_and_nan(const char *name, Handle tensor);
Status aoti_torch_int64_to_ivalue(int64_t value, void **made);
Status aoti_torch_str_to_ivalue(const char *text, void **made);
Status aoti_torch_delete_c10_value_object(void *value);
Status aoti_record_function_start(const char *name, void *keywords, void *const *inputs, uint64_t count, void **made);
Status aoti_record_function_end(void *range);

Status aoti_torch_aten_amax(Handle tensor, const int64_t *dim, int64_t n_dim, int32_t keepdim, Handle *made);
Status aoti_torch_aten_fill__Scalar(Handle tensor, double value);
Status aoti_torch_aten_full(const int64_t *size, int64_t n_size, double value, int32_t *dtype, int32_t *layout,
                            int32_t *device, int32_t device_index, int32_t *pin_memory, Handle *made);
Status aoti_torch_aten_narrow(Handle tensor, int64_t dim, int64_t start, int64_t length, Handle *made);
Status aoti_torch_aten_new_empty(Handle tensor, const int64_t *size, int64_t n_size, int32_t *dtype, int32_t *layout,
                                 int32_t *device, int32_t device_index, int32_t *pin_memory, Handle *made);
Status aoti_torch_aten_pad(Handle tensor, const int64_t *pad, int64_t n_pad, const char *mode, double *value,
                           Handle *made);
Status aoti_torch_aten_subtract_Tensor(Handle tensor, Handle other, double alpha, Handle *made);
Status aoti_torch_cpu_add_Scalar(Handle tensor, double other, double alpha, Handle *made);
Status aoti_torch_cpu_addmm_out(Handle out, Handle tensor, Handle a, Handle b, double beta, double alpha);
Status aoti_torch_cpu_avg_pool2d(Handle tensor, const int64_t *kernel, int64_t n_kernel, const int64_t *stride,
                                 int64_t n_stride, const int64_t *padding, int64_t n_padding, int32_t ceil_mode,
                                 int32_t count_include_pad, int64_t *divisor, Handle *made);
Status aoti_torch_cpu_cat(const Handle *tensors, int64_t n_tensors, int64_t dim, Handle *made);
Status aoti_torch_cpu_topk(Handle tensor, int64_t k, int64_t dim, int32_t largest, int32_t sorted, Handle *values,
                           Handle *indices);
Status aoti_torch_cpu_index_Tensor(Handle tensor, const Handle **indices, int64_t n_indices, Handle *made);

#ifdef __cplusplus
}
#endif

#endif
