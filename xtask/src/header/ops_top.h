/* A typed function for every operator of the registry, in the order of its declarations.
 *
 * Written by `cargo xtask header` from ops/: changes belong there.
 *
 * `corten_op_add_tensor` is the overload `add.Tensor`. Arguments are those of the schema above each function; results
 * follow them and are the caller's, as those of `corten_call`. An argument that may be absent is a pointer, null
 * where it is; a dtype, a layout or a memory format is CORTEN_ABSENT then. A number of any kind is a `CortenValue`:
 * `corten_of_int(1)`, `corten_of_double(0.5)`, `corten_none()`.
 */

#ifndef CORTEN_OPS_H
#define CORTEN_OPS_H

#include "corten.h"

/* In place of a dtype, a layout or a memory format. */
#define CORTEN_ABSENT (-1)

static inline CortenValue corten_maybe_tensor(CortenTensor *tensor) {
    return tensor == NULL ? corten_none() : corten_of_tensor(tensor);
}

static inline CortenValue corten_maybe_int(const int64_t *integer) {
    return integer == NULL ? corten_none() : corten_of_int(*integer);
}

static inline CortenValue corten_maybe_double(const double *number) {
    return number == NULL ? corten_none() : corten_of_double(*number);
}

static inline CortenValue corten_maybe_bool(const bool *boolean) {
    return boolean == NULL ? corten_none() : corten_of_bool(*boolean);
}

static inline CortenValue corten_maybe_string(const char *string) {
    return string == NULL ? corten_none() : corten_of_string(string);
}

static inline CortenValue corten_maybe_device(const CortenDevice *device) {
    return device == NULL ? corten_none() : corten_of_device(*device);
}

static inline CortenValue corten_maybe_dtype(CortenDType dtype) {
    return dtype < 0 ? corten_none() : corten_of_dtype(dtype);
}

static inline CortenValue corten_maybe_layout(int32_t layout) {
    return layout < 0 ? corten_none() : corten_of_layout(layout);
}

static inline CortenValue corten_maybe_memory_format(int32_t format) {
    return format < 0 ? corten_none() : corten_of_memory_format(format);
}

static inline CortenValue corten_maybe_generator(CortenGenerator *generator) {
    return generator == NULL ? corten_none() : corten_of_generator(generator);
}

/* A list whose pointer is null is absent, an empty one has any other pointer. */
static inline CortenValue corten_maybe_list(CortenValue list) {
    return list.u.values == NULL ? corten_none() : list;
}
