/* A library of operators over PyTorch's stable C ABI, in C: the operator `stable_c::check` calls the ABI's functions
   and returns the line of the first that is wrong, or 0. The others are for use_stable.py. */

#include "abi.h"

#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) \
            return __LINE__; \
    } while (0)
#define OK(call) CHECK((call) == 0)
#define FAILS(call, text) CHECK((call) == 1 && strstr(torch_exception_get_what_without_backtrace(), text))

static const uint64_t VERSION = ((uint64_t)2 << 56) | ((uint64_t)15 << 48);
static int freed;

static void count_freed(void *data, void *context)
{
    freed += *(int *)context + (data == NULL);
}

static Word from_double(double number)
{
    Word word;
    memcpy(&word, &number, sizeof word);
    return word;
}

static Word present(Word value)
{
    Word *word = NULL;
    if (torch_new_stable_ivalue(&word) == 0)
        *word = value;
    return (Word)(uintptr_t)word;
}

static Word of(Handle tensor)
{
    return (Word)(uintptr_t)tensor;
}

static Handle tensor_in(Word word)
{
    return (Handle)(uintptr_t)word;
}

static Word list_of(const int64_t *numbers, size_t count)
{
    ListHandle list = NULL;
    if (torch_new_list_reserve_size(count, &list) != 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        torch_list_push_back(list, (Word)numbers[i]);
    return (Word)(uintptr_t)list;
}

static double number_at(Handle tensor, int64_t index)
{
    const void *data = NULL;
    torch_get_const_data_ptr(tensor, &data);
    return ((const double *)data)[index];
}

static int check_constants(void)
{
    CHECK(aoti_torch_abi_version() == VERSION);
    CHECK(aoti_torch_device_type_cpu() == 0 && aoti_torch_device_type_cuda() == 1);
    CHECK(aoti_torch_dtype_float32() == 6 && aoti_torch_dtype_bfloat16() == 15);
    CHECK(aoti_torch_dtype_element_size(aoti_torch_dtype_float64()) == 8);
    CHECK(aoti_torch_dtype_element_size(-1) == 0);
    CHECK(aoti_torch_layout_strided() == 0 && aoti_torch_memory_format_channels_last() == 2);
    uint32_t type = 9;
    int32_t index = 9;
    OK(torch_parse_device_string("cuda:1", &type, &index));
    CHECK(type == 1 && index == 1);
    OK(torch_parse_device_string("cpu", &type, &index));
    CHECK(type == 0 && index == -1);
    FAILS(torch_parse_device_string("nope", &type, &index), "nope");
    FAILS(torch_parse_device_string(NULL, &type, &index), "null");
    return 0;
}

static int check_lists_and_texts(void)
{
    ListHandle list = NULL;
    size_t size = 9;
    Word word = 0;
    OK(torch_new_list_reserve_size(0, &list));
    for (Word i = 0; i < 5; i++)
        OK(torch_list_push_back(list, i * i));
    OK(torch_list_size(list, &size));
    OK(torch_list_set_item(list, 2, 77));
    OK(torch_list_get_item(list, 2, &word));
    CHECK(size == 5 && word == 77);
    FAILS(torch_list_get_item(list, 5, &word), "out of range");
    FAILS(torch_list_set_item(list, 5, 0), "out of range");
    FAILS(torch_list_size(NULL, &size), "null");
    OK(torch_delete_list(list));
    FAILS(torch_new_list_reserve_size(SIZE_MAX, &list), "does not fit");

    TextHandle text = NULL;
    const char *data = NULL;
    OK(torch_new_string_handle("a\0b", 3, &text));
    OK(torch_string_length(text, &size));
    OK(torch_string_c_str(text, &data));
    CHECK(size == 3 && memcmp(data, "a\0b", 4) == 0);
    OK(torch_delete_string(text));
    FAILS(torch_delete_string(NULL), "null");
    LibraryHandle library = NULL;
    OK(aoti_torch_library_init_fragment("stable_c_other", __FILE__, __LINE__, &library));
    FAILS(aoti_torch_library_def(library, "no schema"), "");
    FAILS(torch_library_impl(library, "absent", NULL, VERSION), "null");
    OK(aoti_torch_delete_library_object(library));

    Word *value = NULL;
    OK(torch_new_stable_ivalue(&value));
    OK(torch_delete_stable_ivalue(value));
    FAILS(torch_delete_stable_ivalue(NULL), "null");
    return 0;
}

static int check_metadata(Handle x)
{
    int64_t number = 0, *sizes = NULL, *strides = NULL, *again = NULL;
    int32_t small = 9;
    bool truth = false;
    OK(aoti_torch_get_dim(x, &number));
    CHECK(number == 2);
    OK(aoti_torch_get_numel(x, &number));
    CHECK(number == 6);
    OK(aoti_torch_get_sizes(x, &sizes));
    OK(aoti_torch_get_strides(x, &strides));
    OK(aoti_torch_get_sizes(x, &again));
    CHECK(sizes[0] == 2 && sizes[1] == 3 && strides[0] == 3 && strides[1] == 1 && again == sizes);
    OK(aoti_torch_get_size(x, -1, &number));
    CHECK(number == 3);
    OK(aoti_torch_get_stride(x, 0, &number));
    CHECK(number == 3);
    FAILS(aoti_torch_get_size(x, 2, &number), "out of range");
    OK(aoti_torch_get_dtype(x, &small));
    CHECK(small == aoti_torch_dtype_float64());
    OK(aoti_torch_get_device_type(x, &small));
    CHECK(small == 0);
    OK(aoti_torch_get_device_index(x, &small));
    CHECK(small == -1);
    OK(aoti_torch_get_layout(x, &small));
    CHECK(small == 0);
    OK(aoti_torch_get_storage_offset(x, &number));
    CHECK(number == 1);
    OK(aoti_torch_get_storage_size(x, &number));
    CHECK(number == 56);
    OK(aoti_torch_get_storage_numel(x, &number));
    CHECK(number == 7);
    OK(aoti_torch_is_contiguous(x, &truth));
    CHECK(truth);
    OK(aoti_torch_is_defined(x, &truth));
    CHECK(truth);
    OK(torch_has_storage(x, &truth));
    CHECK(truth);
    FAILS(aoti_torch_get_dim(NULL, &number), "null");
    FAILS(aoti_torch_get_dim(x, NULL), "null");
    return 0;
}

static int check_tensors(void)
{
    static double memory[7] = {9, 1, 2, 3, 4, 5, 6};
    const int64_t sizes[2] = {2, 3}, strides[2] = {3, 1}, wrong[2] = {2, -3};
    const int32_t dtype = aoti_torch_dtype_float64(), host = aoti_torch_device_type_cpu();
    int step = 10;
    Handle x = NULL, view = NULL, copy = NULL;
    FAILS(torch_from_blob(memory, 2, wrong, strides, 1, dtype, host, -1, &x, 0, NULL, 0, count_freed, &step),
          "NegativeSize");
    FAILS(torch_from_blob(memory, 2, sizes, strides, 1, dtype, host, -1, &x, 1, NULL, 0, NULL, NULL), "strided");
    FAILS(torch_from_blob(memory, 2, sizes, strides, 1, 999, host, -1, &x, 0, NULL, 0, NULL, NULL), "999");
    CHECK(freed == 0);
    OK(torch_from_blob(memory, 2, sizes, strides, 1, dtype, host, -1, &x, 0, NULL, 0, count_freed, &step));
    int line = check_metadata(x);
    if (line)
        return line;
    void *data = NULL;
    OK(aoti_torch_get_data_ptr(x, &data));
    CHECK(data == memory + 1);
    OK(torch_get_mutable_data_ptr(x, &data));
    CHECK(data == memory + 1);

    const int64_t turned[2] = {3, 2}, turned_strides[2] = {1, 3}, far[2] = {3, 9};
    OK(aoti_torch__reinterpret_tensor(x, 2, turned, turned_strides, 1, &view));
    FAILS(aoti_torch__reinterpret_tensor(x, 2, turned, far, 1, &copy), "");
    OK(aoti_torch_clone_preserve_strides(view, &copy));
    CHECK(number_at(copy, 0) == 1 && number_at(copy, 5) == 6);
    int64_t stride = 0;
    OK(aoti_torch_get_stride(copy, 1, &stride));
    CHECK(stride == 3);
    OK(aoti_torch_delete_tensor_object(copy));
    OK(aoti_torch_clone(view, &copy));
    OK(aoti_torch_zero_(copy));
    OK(aoti_torch_copy_(copy, view, 0));
    CHECK(number_at(copy, 1) == 4 || number_at(copy, 1) == 2);
    OK(aoti_torch_tensor_copy_(view, copy));
    OK(aoti_torch_assign_tensors(view, copy));
    CHECK(number_at(copy, 0) == 1);
    OK(aoti_torch_delete_tensor_object(copy));
    OK(aoti_torch_assign_tensors_out(view, &copy));
    OK(aoti_torch_delete_tensor_object(copy));
    const int64_t pair[1] = {2}, one[1] = {1};
    OK(aoti_torch__alloc_from_pool(x, 16, dtype, 1, pair, one, &copy));
    CHECK(number_at(copy, 0) == 2);
    OK(aoti_torch_delete_tensor_object(copy));
    FAILS(aoti_torch__alloc_from_pool(x, 3, dtype, 1, pair, one, &copy), "byte 3");
    OK(aoti_torch_as_strided(x, turned, turned_strides, &copy));
    OK(aoti_torch_delete_tensor_object(copy));
    OK(aoti_torch_delete_tensor_object(x));
    CHECK(freed == 0);
    OK(aoti_torch_delete_tensor_object(view));
    CHECK(freed == 10);

    bool truth = true;
    OK(aoti_torch_new_uninitialized_tensor(&x));
    OK(aoti_torch_is_defined(x, &truth));
    CHECK(!truth);
    FAILS(aoti_torch_get_data_ptr(x, &data), "");
    OK(aoti_torch_delete_tensor_object(x));
    OK(aoti_torch_empty_strided(2, sizes, strides, dtype, aoti_torch_device_type_meta(), -1, &x));
    OK(aoti_torch_get_data_ptr(x, &data));
    CHECK(data == NULL);
    OK(aoti_torch_delete_tensor_object(x));
    return 0;
}

static int check_items(void)
{
    Handle x = NULL;
    double number = 0;
    int8_t small = 0;
    bool truth = false;
    uint16_t bits = 0;
    OK(aoti_torch_scalar_to_tensor_float64(300.5, &x));
    OK(aoti_torch_item_float64(x, &number));
    CHECK(number == 300.5);
    FAILS(aoti_torch_item_int8(x, &small), "overflow");
    OK(aoti_torch_item_bool(x, &truth));
    CHECK(truth);
    OK(aoti_torch_item_bfloat16(x, &bits));
    CHECK(bits == 0x4396);
    OK(aoti_torch_check_inf_and_nan("x", x));
    OK(aoti_torch_delete_tensor_object(x));
    Complex64 value = {1.5f, -2.0f}, found = {0, 0};
    OK(aoti_torch_scalar_to_tensor_complex64(value, &x));
    OK(aoti_torch_item_complex64(x, &found));
    CHECK(found.real == 1.5f && found.imaginary == -2.0f);
    OK(aoti_torch_delete_tensor_object(x));
    Complex128 wide = {2.5, 3.5};
    OK(aoti_torch_scalar_to_tensor_complex128(wide, &x));
    OK(aoti_torch_item_complex64(x, &found));
    CHECK(found.real == 2.5f && found.imaginary == 3.5f);
    OK(aoti_torch_delete_tensor_object(x));
    OK(aoti_torch_scalar_to_tensor_uint8(200, &x));
    int32_t dtype = -1;
    OK(aoti_torch_get_dtype(x, &dtype));
    CHECK(dtype == 0);
    OK(aoti_torch_delete_tensor_object(x));
    OK(aoti_torch_scalar_to_tensor_float64(1.0 / 0.0, &x));
    FAILS(aoti_torch_check_inf_and_nan("x", x), "INF or NaN in x");
    OK(aoti_torch_delete_tensor_object(x));
    return 0;
}

static int check_calls(void)
{
    const int64_t size[2] = {2, 3};
    Word words[8] = {list_of(size, 2), present((Word)aoti_torch_dtype_float64()), 0, 0, 0, 0};
    OK(torch_call_dispatcher("aten::empty", "memory_format", words, VERSION));
    Handle x = tensor_in(words[0]), y = NULL;
    OK(aoti_torch_aten_fill__Scalar(x, 2.0));

    OK(aoti_torch_new_tensor_handle(x, &y));
    words[0] = of(y), words[1] = (Word)-1, words[2] = 0, words[3] = 0;
    OK(aoti_torch_call_dispatcher("aten::sort", "", words));
    OK(aoti_torch_delete_tensor_object(tensor_in(words[0])));
    OK(aoti_torch_delete_tensor_object(tensor_in(words[1])));

    OK(aoti_torch_new_tensor_handle(x, &y));
    words[0] = of(y), words[1] = from_double(1.0);
    FAILS(aoti_torch_call_dispatcher("aten::add", "Scalar", words),
          "Not yet supported conversion from StableIValue to IValue for schema type: Scalar");
    FAILS(aoti_torch_call_dispatcher("aten::nope", "", words), "Could not find schema for aten::nope");
    OK(aoti_torch_new_tensor_handle(x, &y));
    words[0] = of(y);
    OK(aoti_torch_new_tensor_handle(x, &y));
    words[1] = of(y);
    FAILS(torch_call_dispatcher("aten::mm", "", words, VERSION), "cannot be multiplied");
    words[0] = 0;
    FAILS(aoti_torch_call_dispatcher("aten::relu", "", words), "null");

    OK(torch_set_requires_grad(x, true));
    CHECK(aoti_torch_grad_mode_is_enabled());
    aoti_torch_grad_mode_set_enabled(false);
    CHECK(!aoti_torch_grad_mode_is_enabled());
    aoti_torch_grad_mode_set_enabled(true);
    OK(torch_set_requires_grad(x, false));
    OK(aoti_torch_delete_tensor_object(x));
    return 0;
}

static int check_operators(void)
{
    const int64_t size[4] = {1, 1, 4, 4}, row[2] = {1, 16}, window[2] = {2, 2}, none[1] = {0};
    int32_t dtype = aoti_torch_dtype_float64(), device = 0, layout = 0;
    Handle x = NULL, y = NULL, z = NULL;
    OK(aoti_torch_aten_full(size, 4, 1.5, &dtype, &layout, &device, -1, NULL, &x));
    CHECK(number_at(x, 15) == 1.5);
    int64_t divisor = 3;
    OK(aoti_torch_cpu_avg_pool2d(x, window, 2, window, 2, none, 1, 0, 1, &divisor, &y));
    CHECK(number_at(y, 0) == 2.0);
    OK(aoti_torch_delete_tensor_object(y));
    OK(aoti_torch_cpu_avg_pool2d(x, window, 2, window, 0, none, 1, 1, 1, NULL, &y));
    CHECK(number_at(y, 3) == 1.5);
    OK(aoti_torch_delete_tensor_object(y));
    const int64_t flat[2] = {1, 16}, flat_strides[2] = {16, 1};
    OK(aoti_torch__reinterpret_tensor(x, 2, flat, flat_strides, 0, &y));
    OK(aoti_torch_cpu_add_Scalar(y, 2.0, 3.0, &z));
    CHECK(number_at(z, 7) == 7.5);
    const Handle both[2] = {y, z};
    Handle all = NULL, top = NULL, places = NULL;
    OK(aoti_torch_cpu_cat(both, 2, 1, &all));
    OK(aoti_torch_cpu_topk(all, 1, 1, 1, 1, &top, &places));
    CHECK(number_at(top, 0) == 7.5);
    OK(aoti_torch_delete_tensor_object(top));
    OK(aoti_torch_delete_tensor_object(places));
    OK(aoti_torch_aten_amax(all, NULL, 0, 0, &top));
    CHECK(number_at(top, 0) == 7.5);
    OK(aoti_torch_delete_tensor_object(top));
    OK(aoti_torch_aten_narrow(all, 1, 15, 2, &top));
    OK(aoti_torch_delete_tensor_object(all));
    CHECK(number_at(top, 0) == 1.5 && number_at(top, 1) == 7.5);
    double filling = 4.0;
    OK(aoti_torch_aten_pad(top, window, 2, "constant", &filling, &all));
    CHECK(number_at(all, 0) == 4.0 && number_at(all, 3) == 7.5);
    OK(aoti_torch_delete_tensor_object(all));
    OK(aoti_torch_delete_tensor_object(top));
    OK(aoti_torch_aten_subtract_Tensor(y, z, 0.5, &all));
    CHECK(number_at(all, 0) == 1.5 - 3.75);
    OK(aoti_torch_delete_tensor_object(all));
    FAILS(aoti_torch_cpu_cat(NULL, 2, 1, &all), "null");
    FAILS(aoti_torch_cpu_cat(both, -1, 1, &all), "-1");

    /* out = 0.5 * z + 2 * (y @ y^T), where the arguments behind the handles are numbers of floating point. */
    Handle turned = NULL, out = NULL;
    const int64_t column[2] = {16, 1}, column_strides[2] = {1, 16};
    OK(aoti_torch__reinterpret_tensor(x, 2, column, column_strides, 0, &turned));
    OK(aoti_torch_aten_new_empty(y, row, 1, NULL, NULL, NULL, 0, NULL, &out));
    OK(aoti_torch_delete_tensor_object(out));
    const int64_t square[2] = {1, 1};
    OK(aoti_torch_aten_new_empty(y, square, 2, NULL, NULL, NULL, 0, NULL, &out));
    Handle first = NULL;
    OK(aoti_torch_aten_narrow(z, 1, 0, 1, &first));
    OK(aoti_torch_cpu_addmm_out(out, first, y, turned, 0.5, 2.0));
    CHECK(number_at(out, 0) == 0.5 * 7.5 + 2 * 16 * 1.5 * 1.5);

    Handle index = NULL;
    OK(aoti_torch_scalar_to_tensor_int64(3, &index));
    const Handle *indices[2] = {NULL, &index};
    Handle picked = NULL;
    OK(aoti_torch_cpu_index_Tensor(z, indices, 2, &picked));
    CHECK(number_at(picked, 0) == 7.5);
    const Handle rest[] = {x, y, z, turned, out, first, index, picked};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        OK(aoti_torch_delete_tensor_object(rest[i]));
    return 0;
}

struct Sum {
    int64_t parts[64];
    uint32_t threads;
    bool wrong;
};

static void add_range(int64_t begin, int64_t end, void *context)
{
    struct Sum *sum = context;
    uint32_t index = 0;
    if (torch_get_thread_idx(&index) != 0 || index >= sum->threads || index >= 64) {
        sum->wrong = true;
        return;
    }
    for (int64_t i = begin; i < end; i++)
        sum->parts[index] += i;
}

static int check_threads_and_devices(void)
{
    struct Sum sum = {{0}, 0, false};
    OK(torch_get_num_threads(&sum.threads));
    OK(torch_parallel_for(0, 100000, 100, add_range, &sum));
    int64_t total = 0;
    for (int i = 0; i < 64; i++)
        total += sum.parts[i];
    CHECK(!sum.wrong && total == (int64_t)100000 * 99999 / 2);
    OK(torch_parallel_for(5, 5, 0, add_range, &sum));
    OK(torch_parallel_for(5, 3, 0, add_range, &sum));
    FAILS(torch_parallel_for(INT64_MIN, INT64_MAX, 1, add_range, &sum), "too long");
    FAILS(torch_parallel_for(0, 1, 1, NULL, &sum), "null");

    char *message = NULL;
    OK(torch_c10_cuda_check_msg(0, "file", "function", 7, true, &message));
    CHECK(message == NULL);
    OK(torch_c10_cuda_check_msg(100, "file", "function", 7, true, &message));
    CHECK(strstr(message, "code 100 in function (file:7)"));
    torch_c10_cuda_free_error_msg(message);

    void *thing = NULL;
    OK(aoti_torch_int64_to_ivalue(7, &thing));
    OK(aoti_torch_delete_c10_value_object(thing));
    OK(aoti_torch_str_to_ivalue("text", &thing));
    OK(aoti_torch_delete_c10_value_object(thing));
    OK(aoti_record_function_start("range", NULL, NULL, 0, &thing));
    OK(aoti_record_function_end(thing));
    return 0;
}

static int check_all(void)
{
    int (*const checks[])(void) = {check_constants, check_lists_and_texts, check_tensors,           check_items,
                                   check_calls,     check_operators,       check_threads_and_devices};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        int line = checks[i]();
        if (line)
            return line;
    }
    return 0;
}

static void check(Word *words, uint64_t arguments, uint64_t results)
{
    words[0] = (Word)(int64_t)(arguments == 0 && results == 1 ? check_all() : -1);
}

/* Whether functions of GPUs say that there is none. */
static void refuses_devices(Word *words, uint64_t arguments, uint64_t results)
{
    void *thing = NULL;
    int32_t index = 0;
    const char *text = "Cannot access accelerator device when none is available.";
    bool refused = aoti_torch_create_device_guard(0, &thing) == 1 &&
                   strstr(torch_exception_get_what(), text) && aoti_torch_get_current_device_index(&index) == 1 &&
                   aoti_torch_get_current_cuda_stream(0, &thing) == 1;
    words[0] = refused && arguments == 0 && results == 1;
}

/* Twice a tensor. */
static void twice(Word *words, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    Handle x = tensor_in(words[0]), y = NULL;
    if (aoti_torch_aten_subtract_Tensor(x, x, -1.0, &y) != 0)
        y = NULL;
    aoti_torch_delete_tensor_object(x);
    words[0] = of(y);
}

/* The type of the device that a generator is for. */
static void generator_device(Word *words, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    GeneratorHandle generator = (GeneratorHandle)(uintptr_t)words[0], other = NULL;
    int32_t type = -1, index = 0;
    if (torch_new_generator_handle(generator, &other) == 0)
        torch_generator_get_device(other, &type, &index);
    torch_delete_generator(other);
    torch_delete_generator(generator);
    words[0] = (Word)type;
}

/* No tensor, where the schema has one: it is refused. */
static void nothing(Word *words, uint64_t arguments, uint64_t results)
{
    (void)arguments, (void)results;
    aoti_torch_delete_tensor_object(tensor_in(words[0]));
    words[0] = 0;
}

/* The objects of the library are kept: PyTorch takes back what was registered when one is deleted. */
__attribute__((constructor)) static void register_operators(void)
{
    LibraryHandle library = NULL;
    const int32_t tags[1] = {torch_tag_core()};
    /* A kernel before its operator, and one at a key that PyTorch has alone. */
    aoti_torch_library_init_impl("stable_c", "CPU", __FILE__, __LINE__, &library);
    torch_library_impl(library, "twice", twice, VERSION);
    aoti_torch_library_init_impl("stable_c", "NoSuchKey", __FILE__, __LINE__, &library);
    aoti_torch_library_impl(library, "twice", nothing);

    aoti_torch_library_init_def("stable_c", __FILE__, __LINE__, &library);
    aoti_torch_library_def(library, "check() -> int");
    torch_library_def_with_tags(library, "twice(Tensor x) -> Tensor", tags, 1);
    torch_library_set_python_module(library, "module", "");
    aoti_torch_library_init_fragment("stable_c", __FILE__, __LINE__, &library);
    aoti_torch_library_def(library, "stable_c::refuses_devices() -> bool");
    aoti_torch_library_def(library, "generator_device(Generator generator) -> int");
    aoti_torch_library_def(library, "nothing(Tensor x) -> Tensor");
    aoti_torch_library_init_impl("stable_c", "CompositeExplicitAutograd", __FILE__, __LINE__, &library);
    aoti_torch_library_impl(library, "check", check);
    aoti_torch_library_impl(library, "refuses_devices", refuses_devices);
    aoti_torch_library_impl(library, "generator_device", generator_device);
    aoti_torch_library_impl(library, "nothing", nothing);
}
