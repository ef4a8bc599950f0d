/* Trains a perceptron with one hidden layer on XOR, saves it and loads it again.
 *
 *     cc perceptron.c -I ../../crates/corten-c/include -L ../../target/c/lib -lcorten -o perceptron
 */
#include "corten.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the message of a call that failed. */
static void check(CortenStatus status) {
    if (status != CORTEN_OK) {
        fprintf(stderr, "error %d: %s\n", (int)status, corten_last_error());
        exit(1);
    }
}

/* Calls an operator that returns one tensor, with up to two tensors as arguments. */
static CortenTensor *call(const char *name, const char *overload, CortenTensor *a, CortenTensor *b) {
    CortenValue inputs[2] = {corten_of_tensor(a), corten_of_tensor(b)};
    CortenTensor *result;
    check(corten_call_tensor(name, overload, inputs, b == NULL ? 1 : 2, &result));
    return result;
}

/* A parameter: random numbers times a factor. */
static CortenTensor *parameter(int64_t rows, int64_t columns, double factor) {
    int64_t sizes[2] = {rows, columns};
    CortenValue size = corten_of_ints(sizes, columns == 0 ? 1 : 2);
    CortenTensor *normal, *scaled;
    check(corten_call_tensor("randn", NULL, &size, 1, &normal));
    CortenValue inputs[2] = {corten_of_tensor(normal), corten_of_double(factor)};
    check(corten_call_tensor("mul", "Scalar", inputs, 2, &scaled));
    check(corten_tensor_set_requires_grad(scaled, true));
    corten_tensor_free(normal);
    return scaled;
}

/* linear(input, weight, bias) */
static CortenTensor *linear(CortenTensor *input, CortenTensor *weight, CortenTensor *bias) {
    CortenValue inputs[3] = {corten_of_tensor(input), corten_of_tensor(weight), corten_of_tensor(bias)};
    CortenTensor *result;
    check(corten_call_tensor("linear", NULL, inputs, 3, &result));
    return result;
}

enum { W1, B1, W2, B2, PARAMETERS };

static const char *const NAMES[PARAMETERS] = {"hidden.weight", "hidden.bias", "output.weight", "output.bias"};

static CortenTensor *forward(CortenTensor *const *parameters, CortenTensor *x) {
    CortenTensor *hidden = linear(x, parameters[W1], parameters[B1]);
    CortenTensor *active = call("tanh", NULL, hidden, NULL);
    CortenTensor *output = linear(active, parameters[W2], parameters[B2]);
    corten_tensor_free(hidden);
    corten_tensor_free(active);
    return output;
}

/* One step of gradient descent: nothing of it is recorded. */
static void step(CortenTensor *const *parameters, double rate) {
    bool was = corten_set_grad_enabled(false);
    for (int i = 0; i < PARAMETERS; i++) {
        CortenTensor *grad, *same;
        check(corten_tensor_grad(parameters[i], &grad));
        CortenValue inputs[3] = {corten_of_tensor(parameters[i]), corten_of_tensor(grad), corten_of_double(rate)};
        check(corten_call_tensor("sub_", "Tensor", inputs, 3, &same));
        check(corten_tensor_set_grad(parameters[i], NULL));
        corten_tensor_free(same);
        corten_tensor_free(grad);
    }
    corten_set_grad_enabled(was);
}

static double loss_of(CortenTensor *const *parameters, CortenTensor *x, CortenTensor *y, bool train) {
    CortenTensor *output = forward(parameters, x);
    CortenTensor *loss = call("mse_loss", NULL, output, y);
    double value;
    check(corten_tensor_item(loss, &value));
    if (train) {
        check(corten_backward(&loss, NULL, 1, false, false));
    }
    corten_tensor_free(loss);
    corten_tensor_free(output);
    return value;
}

int main(int argc, char **argv) {
    if (corten_abi_version() != CORTEN_ABI_VERSION) {
        fprintf(stderr, "libcorten has version %u of the interface\n", (unsigned)corten_abi_version());
        return 1;
    }
    const char *path = argc > 1 ? argv[1] : "perceptron.pt";
    const float points[8] = {0, 0, 0, 1, 1, 0, 1, 1};
    float answers[4] = {0, 1, 1, 0};
    int64_t shape_x[2] = {4, 2}, shape_y[2] = {4, 1};
    CortenTensor *x, *y;
    check(corten_tensor_from_copy(points, shape_x, 2, CORTEN_FLOAT32, &x));
    /* The answers stay where they are: they outlive the tensor. */
    check(corten_tensor_from_memory(answers, shape_y, NULL, 2, CORTEN_FLOAT32, corten_cpu(), NULL, NULL, &y));

    check(corten_manual_seed(0));
    CortenTensor *parameters[PARAMETERS];
    parameters[W1] = parameter(8, 2, 1.0);
    parameters[B1] = parameter(8, 0, 0.1);
    parameters[W2] = parameter(1, 8, 0.5);
    parameters[B2] = parameter(1, 0, 0.1);

    double loss = 0;
    for (int epoch = 0; epoch < 500; epoch++) {
        loss = loss_of(parameters, x, y, true);
        step(parameters, 0.2);
        if (epoch % 100 == 0) {
            printf("epoch %d loss %.4f\n", epoch, loss);
        }
    }
    printf("trained: loss %.4f\n", loss);

    check(corten_save(path, NAMES, parameters, PARAMETERS));
    CortenTensors *loaded;
    check(corten_load(path, &loaded));
    CortenTensor *again[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) {
        again[i] = corten_tensors_find(loaded, NAMES[i]);
    }
    double difference = fabs(loss_of(parameters, x, y, false) - loss_of(again, x, y, false));
    printf("loaded: difference %g\n", difference);

    for (int i = 0; i < PARAMETERS; i++) {
        corten_tensor_free(parameters[i]);
        corten_tensor_free(again[i]);
    }
    corten_tensors_free(loaded);
    corten_tensor_free(x);
    corten_tensor_free(y);
    return loss < 0.01 && difference == 0 ? 0 : 1;
}
