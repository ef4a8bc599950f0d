// Normalisation by rows (layers, groups) and by channels (batches), and the gradients.

namespace ct {

/// A row is normalised by its own mean and variance: one block per row. The parameter of element i of row
/// r is number `r % groups * (len / plane) + i / plane`.
struct NormRows {
    u32 len, plane, groups;
    CT_FN u32 parameter(u32 row, u32 i) const {
        return plane == 1 ? i : row % groups * (len / plane) + i / plane;
    }
};

template <class T, class P, class V>
__global__ void norm_rows(
    NormRows shape, double eps, T* out, P* mean_out, P* rstd_out, const T* in, const P* weight, const P* bias
) {
    CT_DYN_SMEM(V, shared);
    u32 row = blockIdx.x, len = shape.len;
    const T* x = in + (u64)row * len;
    T* y = out + (u64)row * len;
    V sum = 0, squares = 0, errors = 0;
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) sum += (V)widen(x[i]);
    V mean = block_combine(sum, shared, Added()) / (V)len;
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) {
        V distance = (V)widen(x[i]) - mean;
        squares += distance * distance;
        errors += distance;
    }
    squares = block_combine(squares, shared, Added());
    // The mean's rounding takes part in the distances.
    errors = block_combine(errors, shared, Added()) / (V)len;
    V variance = squares / (V)len - errors * errors;
    mean += errors;
    V rstd = (V)1 / sqrt((variance < 0 ? (V)0 : variance) + (V)eps);
    if (threadIdx.x == 0) {
        mean_out[row] = narrow<P>(mean);
        rstd_out[row] = narrow<P>(rstd);
    }
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) {
        V value = ((V)widen(x[i]) - mean) * rstd;
        u32 at = shape.parameter(row, i);
        if (weight) value *= (V)widen(weight[at]);
        if (bias) value += (V)widen(bias[at]);
        y[i] = narrow<T>(value);
    }
}

/// The gradient with respect to the input.
template <class T, class P, class V>
__global__ void norm_rows_backward(
    NormRows shape, T* out, const T* grad, const T* in, const P* means, const P* rstds, const P* weight
) {
    CT_DYN_SMEM(V, shared);
    u32 row = blockIdx.x, len = shape.len;
    const T* x = in + (u64)row * len;
    const T* g = grad + (u64)row * len;
    V mean = widen(means[row]), rstd = widen(rstds[row]), plain = 0, along = 0;
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) {
        V slope = widen(g[i]);
        if (weight) slope *= (V)widen(weight[shape.parameter(row, i)]);
        plain += slope;
        along += slope * ((V)widen(x[i]) - mean);
    }
    plain = block_combine(plain, shared, Added()) / (V)len;
    along = block_combine(along, shared, Added()) * rstd * rstd / (V)len;
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) {
        V slope = widen(g[i]);
        if (weight) slope *= (V)widen(weight[shape.parameter(row, i)]);
        out[(u64)row * len + i] = narrow<T>((slope - plain - ((V)widen(x[i]) - mean) * along) * rstd);
    }
}

/// A contiguous tensor [outer, channels, inner]. The statistics of an element are those of number
/// `outer * per_outer + channel / per * 1` where `per` is not 0, else those of its outer index.
struct NormChannels {
    u32 outer, channels, inner, parts, per_outer, per;
    CT_FN u32 statistic(u32 o, u32 c) const { return o * per_outer + (per == 0 ? 0 : c / per); }
};

/// What is summed over the elements of a channel.
/// 0: x. 1: squared distances from the mean, and distances. 2: g, and g (x - mean) rstd.
template <u32 MODE, class T, class S, class V>
CT_FN void norm_add(
    const NormChannels& shape, u32 o, u32 c, u64 at, const T* in, const T* grad, const S* means, const S* rstds,
    V& first, V& second
) {
    V x = widen(in[at]);
    if constexpr (MODE == 0) {
        first += x;
    } else {
        u32 place = shape.statistic(o, c);
        V distance = x - (V)widen(means[place]);
        if constexpr (MODE == 1) {
            first += distance * distance;
            second += distance;
        } else {
            V g = widen(grad[at]);
            first += g;
            second += g * distance * (V)widen(rstds[place]);
        }
    }
}

/// Sums of each channel in parts, [2, parts, channels]: one block per channel and part.
template <class T, class S, class V, u32 MODE>
__global__ void norm_planes(
    NormChannels shape, V* sums, const T* in, const T* grad, const S* means, const S* rstds
) {
    CT_DYN_SMEM(V, shared);
    u32 c = blockIdx.x;
    u64 count = (u64)shape.outer * shape.inner, each = (count + shape.parts - 1) / shape.parts;
    for (u32 part = blockIdx.y; part < shape.parts; part += gridDim.y) {
        u64 start = part * each, end = start + each < count ? start + each : count;
        V first = 0, second = 0;
        for (u64 j = start + threadIdx.x; j < end; j += blockDim.x) {
            u32 o = count <= 0xffffffffu ? (u32)j / shape.inner : (u32)(j / shape.inner);
            u64 at = ((u64)o * shape.channels + c) * shape.inner + (j - (u64)o * shape.inner);
            norm_add<MODE>(shape, o, c, at, in, grad, means, rstds, first, second);
        }
        first = block_combine(first, shared, Added());
        second = block_combine(second, shared, Added());
        if (threadIdx.x == 0) {
            sums[(u64)part * shape.channels + c] = first;
            sums[((u64)shape.parts + part) * shape.channels + c] = second;
        }
    }
}

/// As `norm_planes` where `inner` is 1: 32 channels per block, and 8 threads along the rows for each.
template <class T, class S, class V, u32 MODE>
__global__ void norm_columns(
    NormChannels shape, V* sums, const T* in, const T* grad, const S* means, const S* rstds
) {
    __shared__ V firsts[8][33], seconds[8][33];
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
    u32 each = (shape.outer + shape.parts - 1) / shape.parts;
    for (u32 part = blockIdx.y; part < shape.parts; part += gridDim.y) {
        u64 start = (u64)part * each, end = start + each < shape.outer ? start + each : shape.outer;
        V first = 0, second = 0;
        if (c < shape.channels) {
            for (u64 o = start + line; o < end; o += 8) {
                norm_add<MODE>(shape, (u32)o, c, o * shape.channels + c, in, grad, means, rstds, first, second);
            }
        }
        firsts[line][lane] = first;
        seconds[line][lane] = second;
        __syncthreads();
        if (line == 0 && c < shape.channels) {
            for (u32 i = 1; i < 8; i++) first += firsts[i][lane], second += seconds[i][lane];
            sums[(u64)part * shape.channels + c] = first;
            sums[((u64)shape.parts + part) * shape.channels + c] = second;
        }
        __syncthreads();
    }
}

template <class V> CT_FN V norm_total(const V* sums, u32 parts, u32 channels, u32 c) {
    V sum = 0;
    for (u32 part = 0; part < parts; part++) sum += sums[(u64)part * channels + c];
    return sum;
}

/// The means of the channels.
template <class V> __global__ void norm_means(u32 channels, u32 parts, double count, V* means, const V* sums) {
    u32 c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < channels) means[c] = norm_total(sums, parts, channels, c) / (V)count;
}

/// The numbers of a batch normalisation.
struct NormBatch { double count, eps, momentum; };

/// Statistics from the sums of mode 1: those of the batch and the next running ones.
template <class P, class V>
__global__ void norm_statistics(
    u32 channels, u32 parts, NormBatch batch, const V* sums, V* means, V* rstds, P* saved_mean, P* saved_rstd,
    const P* running_mean, const P* running_var, P* next_mean, P* next_var
) {
    u32 c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    V count = (V)batch.count, momentum = (V)batch.momentum;
    V error = norm_total(sums + (u64)parts * channels, parts, channels, c);
    V squares = norm_total(sums, parts, channels, c) - error * error / count;
    if (squares < 0) squares = 0;
    V mean = means[c] + error / count, rstd = (V)1 / sqrt(squares / count + (V)batch.eps);
    means[c] = mean, rstds[c] = rstd;
    saved_mean[c] = narrow<P>(mean), saved_rstd[c] = narrow<P>(rstd);
    if (running_mean) next_mean[c] = narrow<P>(((V)1 - momentum) * (V)widen(running_mean[c]) + momentum * mean);
    if (running_var) {
        V unbiased = squares / (count - (V)1);
        next_var[c] = narrow<P>(((V)1 - momentum) * (V)widen(running_var[c]) + momentum * unbiased);
    }
}

/// The totals of the sums of mode 2, which are the gradients of the bias and of the weight.
template <class B, class W, class V>
__global__ void norm_gradients(u32 channels, u32 parts, const V* sums, V* totals, B* bias, W* weight) {
    u32 c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    V plain = norm_total(sums, parts, channels, c);
    V along = norm_total(sums + (u64)parts * channels, parts, channels, c);
    if (totals) totals[c] = plain, totals[channels + c] = along;
    if (bias) bias[c] = narrow<B>(plain);
    if (weight) weight[c] = narrow<W>(along);
}

CT_FN u32 norm_channel(const NormChannels& shape, u64 i, u64 n) {
    if (n <= 0xffffffffu) return (u32)i / shape.inner % shape.channels;
    return (u32)(i / shape.inner % shape.channels);
}

/// (x - mean) * rstd * weight + bias of each channel.
template <class T, class P, class V>
__global__ void norm_apply(
    NormChannels shape, T* out, const T* in, const V* means, const V* rstds, const P* weight, const P* bias
) {
    u64 n = (u64)shape.outer * shape.channels * shape.inner;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        u32 c = norm_channel(shape, i, n);
        V value = ((V)widen(in[i]) - means[c]) * rstds[c];
        if (weight) value *= (V)widen(weight[c]);
        if (bias) value += (V)widen(bias[c]);
        out[i] = narrow<T>(value);
    }
}

/// The gradient of a batch normalisation's input; `share` is 0 where the statistics do not depend on it.
template <class T, class P, class V>
__global__ void norm_apply_backward(
    NormChannels shape, double share, T* out, const T* grad, const T* in, const V* means, const V* rstds,
    const V* totals, const P* weight
) {
    u64 n = (u64)shape.outer * shape.channels * shape.inner;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        u32 c = norm_channel(shape, i, n);
        V rstd = rstds[c], average = totals[c] * (V)share, along = totals[shape.channels + c] * rstd * (V)share;
        V value = ((V)widen(grad[i]) - average - ((V)widen(in[i]) - means[c]) * along) * rstd;
        if (weight) value *= (V)widen(weight[c]);
        out[i] = narrow<T>(value);
    }
}

}  // namespace ct
