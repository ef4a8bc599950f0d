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
