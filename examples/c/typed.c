/* The typed functions of corten_ops.h, which `cargo xtask header FOLDER` writes: the mean and the standard deviation
 * of columns, sorted values, and an error.
 */
#include "corten_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(CortenStatus status) {
    if (status != CORTEN_OK) {
        fprintf(stderr, "error %d: %s\n", (int)status, corten_last_error());
        exit(1);
    }
}

static void print(const char *name, CortenTensor *tensor) {
    double elements[8];
    size_t count = (size_t)corten_tensor_numel(tensor);
    check(corten_tensor_copy_to(tensor, elements, count * sizeof(double)));
    printf("%s:", name);
    for (size_t i = 0; i < count; i++) {
        printf(" %.4f", elements[i]);
    }
    printf("\n");
    corten_tensor_free(tensor);
}

int main(void) {
    const double elements[6] = {3, -1, 1, 5, 2, 2};
    int64_t shape[2] = {3, 2}, columns[1] = {0};
    CortenTensor *x, *mean, *deviation, *sorted = NULL, *places = NULL, *ones, *sum;
    check(corten_tensor_from_copy(elements, shape, 2, CORTEN_FLOAT64, &x));

    check(corten_op_mean_dim(x, columns, 1, false, CORTEN_ABSENT, &mean));
    print("mean", mean);
    check(corten_op_std_correction(x, columns, 1, corten_of_int(0), false, &deviation));
    print("deviation", deviation);
    check(corten_op_sort(x, 0, false, &sorted, &places));
    print("sorted", sorted);
    corten_tensor_free(places);

    check(corten_op_ones_like(x, CORTEN_ABSENT, CORTEN_ABSENT, NULL, NULL, CORTEN_ABSENT, &ones));
    check(corten_op_add_tensor(x, ones, corten_of_double(0.5), &sum));
    print("sum", sum);

    /* Products of matrices have shapes that fit. */
    CortenTensor *none;
    CortenStatus status = corten_op_mm(x, ones, &none);
    printf("refused: %s\n", corten_last_error());
    corten_tensor_free(ones);
    corten_tensor_free(x);
    return status == CORTEN_RUNTIME_ERROR && strstr(corten_last_error(), "mat1 and mat2") != NULL ? 0 : 1;
}
