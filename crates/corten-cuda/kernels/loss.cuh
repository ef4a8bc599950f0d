// Negative log likelihood and binary cross entropy. Sums are made of partial sums in a fixed order.

namespace ct {

/// Samples, classes and places of a sample, and the label that does not count.
struct LabelShape {
    u64 samples, classes, pixels;
    i64 ignored;
};

/// The class of a label; none for one that does not count or is no class, which is reported.
CT_FN i64 class_of(i64 label, const LabelShape& shape, u32* failure) {
    if (label == shape.ignored) return -1;
    if (label < 0 || label >= (i64)shape.classes) {
        *failure = 1;
        return -1;
    }
    return label;
}

/// Each loss and, of a single sample, its weight; or partial sums of losses and of weights.
template <class S, class V>
__global__ void nll(
    S* out, S* total, double* partial, const S* in, const i64* labels, const S* weights, LabelShape shape,
    u32 single, u32* failure
) {
    __shared__ double losses[256], sums[256];
    u64 n = shape.samples * shape.pixels;
    double loss = 0, sum = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        i64 label = class_of(labels[i], shape, failure);
        V weight = label < 0 ? (V)0 : weights ? (V)widen(weights[label]) : (V)1;
        u64 sample = i / shape.pixels, pixel = i - sample * shape.pixels;
        V own = label < 0 ? (V)0 : -(V)widen(in[(sample * shape.classes + label) * shape.pixels + pixel]) * weight;
        if (partial) {
            loss += own;
            sum += weight;
        } else {
            out[i] = narrow<S>(own);
            if (i == 0) *total = narrow<S>(single ? weight : (V)0);
        }
    }
    if (!partial) return;
    losses[threadIdx.x] = loss, sums[threadIdx.x] = sum;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            losses[threadIdx.x] += losses[threadIdx.x + half];
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[2 * blockIdx.x] = losses[0], partial[2 * blockIdx.x + 1] = sums[0];
}

template <class S, class V> __global__ void nll_total(S* out, S* total, const double* partial, u32 blocks, u32 mean) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    double loss = 0, sum = 0;
    for (u32 i = 0; i < blocks; i++) loss += partial[2 * i], sum += partial[2 * i + 1];
    *total = narrow<S>((V)sum);
    *out = narrow<S>((V)(mean ? loss / sum : loss));
}

/// Gradients at the classes of the labels; the others are zero already.
template <class S, class V>
__global__ void nll_backward(
    S* out, const S* grad, const S* total, const i64* labels, const S* weights, LabelShape shape, u32 each, u32 mean,
    u32* failure
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= shape.samples * shape.pixels) return;
    i64 label = class_of(labels[i], shape, failure);
    if (label < 0) return;
    V weight = weights ? (V)widen(weights[label]) : (V)1;
    V share = -weight * (V)widen(grad[each ? i : 0]);
    if (mean) share = share / (V)widen(*total);
    u64 sample = i / shape.pixels, pixel = i - sample * shape.pixels;
    out[(sample * shape.classes + label) * shape.pixels + pixel] = narrow<S>(share);
}

template <class S, class V>
__global__ void cross_entropy(u64 n, S* out, const S* in, const S* target, u32* failure) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    V x = widen(in[i]), t = widen(target[i]);
    if (!(x >= 0 && x <= 1)) *failure = 2;
    V yes = log(x), no = log((V)1 - x);
    yes = yes < (V)-100 ? (V)-100 : yes, no = no < (V)-100 ? (V)-100 : no;
    out[i] = narrow<S>((t - (V)1) * no - t * yes);
}

}  // namespace ct
