/* A library of operators: `example_c::softclip(Tensor self, float limit=1.0) -> Tensor`, which is
 * limit * x / (limit + |x|), with its derivative limit^2 / (limit + |x|)^2.
 *
 *     cc -shared -fPIC operators.c -I ../../crates/corten-c/include -o liboperators.so
 *
 * `torch.ops.load_library("./liboperators.so")` makes it an operator of Python, `corten_c::load_library` one of
 * Rust. It is linked to nothing.
 */
#include "corten_library.h"

#include <math.h>

/* The argument as a contiguous tensor of doubles; a new reference. */
static CortenStatus as_doubles(CortenTensor *tensor, CortenTensor **doubles) {
    CortenTensor *converted;
    CortenValue to[2] = {corten_of_tensor(tensor), corten_of_dtype(CORTEN_FLOAT64)};
    CortenStatus status = corten_call_tensor("to", "dtype", to, 2, &converted);
    if (status != CORTEN_OK) return status;
    CortenValue input = corten_of_tensor(converted);
    status = corten_call_tensor("contiguous", NULL, &input, 1, doubles);
    corten_tensor_free(converted);
    return status;
}

/* The tensor in the dtype of another; takes the reference over. */
static CortenStatus as_dtype_of(CortenTensor *tensor, CortenTensor *other, CortenTensor **result) {
    CortenValue to[2] = {corten_of_tensor(tensor), corten_of_dtype(corten_tensor_dtype(other))};
    CortenStatus status = corten_call_tensor("to", "dtype", to, 2, result);
    corten_tensor_free(tensor);
    return status;
}

static CortenStatus softclip(void *data, const CortenKernelCall *call, const CortenValue *inputs, size_t n_inputs,
                             CortenValue *outputs, size_t n_outputs) {
    (void)data, (void)call, (void)n_inputs, (void)n_outputs;
    double limit = inputs[1].u.number;
    if (!(limit > 0)) {
        return corten_set_error(CORTEN_VALUE_ERROR, "softclip: limit must be positive");
    }
    CortenTensor *x, *y;
    CortenStatus status = as_doubles(inputs[0].u.tensor, &x);
    if (status != CORTEN_OK) return status;
    CortenValue like = corten_of_tensor(x);
    status = corten_call_tensor("empty_like", NULL, &like, 1, &y);
    void *from = NULL, *to = NULL;
    if (status == CORTEN_OK) status = corten_tensor_data(x, &from);
    if (status == CORTEN_OK) status = corten_tensor_data(y, &to);
    int64_t n = corten_tensor_numel(x);
    for (int64_t i = 0; status == CORTEN_OK && i < n; i++) {
        double value = ((double *)from)[i];
        ((double *)to)[i] = limit * value / (limit + fabs(value));
    }
    corten_tensor_free(x);
    if (status != CORTEN_OK) return status;
    outputs[0] = corten_of_tensor(NULL);
    return as_dtype_of(y, inputs[0].u.tensor, &outputs[0].u.tensor);
}

/* grad * (limit / (limit + |x|))^2 out of operators, so that it can be differentiated again. */
static CortenStatus softclip_backward(void *data, const CortenValue *inputs, size_t n_inputs,
                                      CortenTensor *const *outputs, CortenTensor *const *grads, size_t n_outputs,
                                      CortenTensor **results, size_t n_results) {
    (void)data, (void)n_inputs, (void)outputs, (void)n_outputs, (void)n_results;
    double limit = inputs[1].u.number;
    CortenTensor *steps[4] = {NULL};
    CortenValue arguments[2] = {inputs[0]};
    CortenStatus status = corten_call_tensor("abs", NULL, arguments, 1, &steps[0]);
    if (status == CORTEN_OK) {
        arguments[0] = corten_of_tensor(steps[0]);
        arguments[1] = corten_of_double(limit);
        status = corten_call_tensor("add", "Scalar", arguments, 2, &steps[1]);
    }
    if (status == CORTEN_OK) {
        arguments[0] = corten_of_tensor(steps[1]);
        arguments[1] = corten_of_double(1 / limit);
        status = corten_call_tensor("mul", "Scalar", arguments, 2, &steps[2]);
    }
    if (status == CORTEN_OK) {
        arguments[0] = corten_of_tensor(steps[2]);
        arguments[1] = corten_of_double(-2);
        status = corten_call_tensor("pow", "Tensor_Scalar", arguments, 2, &steps[3]);
    }
    if (status == CORTEN_OK) {
        arguments[0] = corten_of_tensor(grads[0]);
        arguments[1] = corten_of_tensor(steps[3]);
        status = corten_call_tensor("mul", "Tensor", arguments, 2, &results[0]);
    }
    for (int i = 0; i < 4; i++) {
        corten_tensor_free(steps[i]);
    }
    return status;
}

CORTEN_LIBRARY_INIT(api) {
    CortenLibrary *library = NULL;
    CortenStatus status = corten_use_api(api);
    if (status != CORTEN_OK) return status;
    status = corten_library_new("example_c", &library);
    if (status == CORTEN_OK) {
        status = corten_library_define(library, "softclip(Tensor self, float limit=1.0) -> Tensor");
    }
    if (status == CORTEN_OK) {
        status = corten_library_implement(library, "softclip", "CPU", softclip, NULL, NULL);
    }
    if (status == CORTEN_OK) {
        status = corten_library_derivative(library, "softclip", softclip_backward, NULL, NULL);
    }
    corten_library_free(library);
    return status;
}
