// The margin loss of several labels: a block per sample. Labels end at the first negative one.

namespace ct {

struct MarginShape {
    u64 classes;
    double divisor;
    u32 per_sample;
};

/// Marks the classes that are targets; the number of labels.
template <class S> CT_FN u64 mark_targets(S* marks, const i64* labels, u64 classes, u32* failure) {
    for (u64 k = threadIdx.x; k < classes; k += blockDim.x) marks[k] = narrow<S>(0.f);
    __syncthreads();
    u64 count = 0;
    for (; count < classes && labels[count] >= 0; count++) {
        if (labels[count] >= (i64)classes) { *failure = 1; break; }
        if (threadIdx.x == 0) marks[labels[count]] = narrow<S>(1.f);
    }
    __syncthreads();
    return count;
}

/// The loss of each sample, divided; marks the targets.
template <class S, class V>
__global__ void multilabel_margin(
    double* losses, S* marks, const S* values, const i64* labels, MarginShape shape, u32* failure
) {
    __shared__ double partial[256];
    u64 start = (u64)blockIdx.x * shape.classes;
    marks += start, values += start, labels += start;
    u64 count = mark_targets(marks, labels, shape.classes, failure);
    double sum = 0;
    for (u64 k = threadIdx.x; k < shape.classes; k += blockDim.x) {
        if (widen(marks[k]) != 0) continue;
        V own = widen(values[k]);
        for (u64 label = 0; label < count; label++) {
            V gap = (V)1 - (V)widen(values[labels[label]]) + own;
            // A comparison with NaN is false: such pairs count for nothing.
            if (gap > 0) sum += gap;
        }
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) losses[blockIdx.x] = partial[0] / shape.divisor;
}

/// How often each class is in a pair that adds to the loss, times the gradient; targets count down.
template <class S, class V>
__global__ void multilabel_margin_gradient(
    S* out, const S* grad, const S* values, const i64* labels, const S* marks, MarginShape shape, u32* failure
) {
    u64 start = (u64)blockIdx.x * shape.classes;
    out += start, marks += start, values += start, labels += start;
    u64 count = 0;
    while (count < shape.classes && labels[count] >= 0) {
        if (labels[count] >= (i64)shape.classes) { *failure = 1; break; }
        count++;
    }
    double share = (double)widen(grad[shape.per_sample ? blockIdx.x : 0]) / shape.divisor;
    for (u64 k = threadIdx.x; k < shape.classes; k += blockDim.x) {
        V own = widen(values[k]);
        i64 pairs = 0;
        bool is_target = widen(marks[k]) != 0;
        for (u64 label = 0; label < count; label++) {
            V room = (V)1 - (V)widen(values[labels[label]]);
            if (!is_target) pairs += room + own > 0;
            if ((u64)labels[label] != k) continue;
            for (u64 other = 0; other < shape.classes; other++) {
                if (widen(marks[other]) == 0 && room + (V)widen(values[other]) > 0) pairs--;
            }
        }
        out[k] = narrow<S>((V)((double)pairs * share));
    }
}

}  // namespace ct
