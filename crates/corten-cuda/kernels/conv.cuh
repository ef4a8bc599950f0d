// Convolutions over up to three spatial dimensions as products of matrices whose elements are found where
// they lie (implicit GEMM), for each of the three operands: the output, the image (the adjoint, a
// transposed convolution) and the weight. All tensors are contiguous.

namespace ct {

/// A convolution from an image [samples, groups * channels, image...] to an output
/// [samples, groups * features, output...] by a weight [groups * features, channels, kernel...].
struct ConvShape {
    u32 samples, groups, channels, features;
    u32 image[3], kernel[3], output[3], stride[3], padding[3], dilation[3];
    /// Volumes: of the image, the kernel, the output.
    u32 pixels, taps, positions;
    /// Parts of the sums, each with a result of its own.
    u32 parts, each;
    Divider by_taps, by_kernel[2], by_positions, by_output[2], by_pixels, by_image[2], by_stride[3];
};

/// Divides and keeps the rest.
CT_FN u32 split(u32& n, const Divider& by) {
    u32 quotient = by.quotient(n);
    n -= quotient * by.divisor;
    return quotient;
}

/// A number in a volume as three coordinates.
CT_FN void conv_place(u32 n, const Divider (&by)[2], u32 (&at)[3]) {
    at[0] = split(n, by[0]);
    at[1] = split(n, by[1]);
    at[2] = n;
}

/// The pixel that a tap meets at a position, if there is one.
CT_FN bool conv_pixel(const ConvShape& s, const u32 (&position)[3], const u32 (&tap)[3], u32& pixel) {
    pixel = 0;
    #pragma unroll
    for (int axis = 0; axis < 3; axis++) {
        i64 at = (i64)position[axis] * s.stride[axis] + (i64)tap[axis] * s.dilation[axis] - s.padding[axis];
        if (at < 0 || at >= s.image[axis]) return false;
        pixel = pixel * s.image[axis] + (u32)at;
    }
    return true;
}

/// The position at which a tap meets a pixel, if there is one.
CT_FN bool conv_position(const ConvShape& s, const u32 (&pixel)[3], const u32 (&tap)[3], u32& position) {
    position = 0;
    #pragma unroll
    for (int axis = 0; axis < 3; axis++) {
        i64 at = (i64)pixel[axis] + s.padding[axis] - (i64)tap[axis] * s.dilation[axis];
        if (at < 0 || at > 0x7fffffff) return false;
        u32 rest = (u32)at, own = split(rest, s.by_stride[axis]);
        if (rest != 0 || own >= s.output[axis]) return false;
        position = position * s.output[axis] + own;
    }
    return true;
}

/// The operand that is computed.
enum ConvRole { CONV_OUTPUT = 0, CONV_IMAGE = 1, CONV_WEIGHT = 2 };

/// The product of a role: rows are its features (or channels), columns its positions (or pixels, or taps),
/// steps what is summed over.
template <u32 ROLE, class T, class V> struct ConvProduct {
    const ConvShape& s;
    const T* a;
    const T* b;
    u32 group;

    CT_FN u32 rows() const { return ROLE == CONV_IMAGE ? s.channels : s.features; }
    CT_FN u32 columns() const {
        if (ROLE == CONV_OUTPUT) return s.samples * s.positions;
        if (ROLE == CONV_IMAGE) return s.samples * s.pixels;
        return s.channels * s.taps;
    }
    CT_FN u32 steps() const {
        if (ROLE == CONV_OUTPUT) return s.channels * s.taps;
        if (ROLE == CONV_IMAGE) return s.features * s.taps;
        return s.samples * s.positions;
    }

    /// The element of the left factor: of the weight, or of the output's gradient.
    CT_FN V left(u32 row, u32 step) const {
        if constexpr (ROLE == CONV_OUTPUT) {
            return to<V>(widen(a[((u64)group * s.features + row) * s.channels * s.taps + step]));
        } else if constexpr (ROLE == CONV_IMAGE) {
            u32 tap = step, feature = split(tap, s.by_taps);
            return to<V>(widen(a[(((u64)group * s.features + feature) * s.channels + row) * s.taps + tap]));
        } else {
            u32 position = step, sample = split(position, s.by_positions);
            return to<V>(widen(a[((u64)sample * s.groups * s.features + group * s.features + row) * s.positions + position]));
        }
    }

    /// What is known of a column before its steps.
    struct Column { u32 first, at[3]; };
    CT_FN Column column(u32 n) const {
        Column c;
        if constexpr (ROLE == CONV_OUTPUT) {
            c.first = split(n, s.by_positions);
            conv_place(n, s.by_output, c.at);
        } else if constexpr (ROLE == CONV_IMAGE) {
            c.first = split(n, s.by_pixels);
            conv_place(n, s.by_image, c.at);
        } else {
            c.first = split(n, s.by_taps);
            conv_place(n, s.by_kernel, c.at);
        }
        return c;
    }

    /// The element of the right factor.
    CT_FN V right(const Column& c, u32 step) const {
        u32 tap[3], at;
        if constexpr (ROLE == CONV_OUTPUT) {
            u32 channel = split(step, s.by_taps);
            conv_place(step, s.by_kernel, tap);
            if (!conv_pixel(s, c.at, tap, at)) return lit<V>(0.0);
            u64 plane = (u64)c.first * s.groups * s.channels + group * s.channels + channel;
            return to<V>(widen(b[plane * s.pixels + at]));
        } else if constexpr (ROLE == CONV_IMAGE) {
            u32 feature = split(step, s.by_taps);
            conv_place(step, s.by_kernel, tap);
            if (!conv_position(s, c.at, tap, at)) return lit<V>(0.0);
            u64 plane = (u64)c.first * s.groups * s.features + group * s.features + feature;
            return to<V>(widen(b[plane * s.positions + at]));
        } else {
            u32 position[3], sample = split(step, s.by_positions);
            conv_place(step, s.by_output, position);
            if (!conv_pixel(s, position, c.at, at)) return lit<V>(0.0);
            u64 plane = (u64)sample * s.groups * s.channels + group * s.channels + c.first;
            return to<V>(widen(b[plane * s.pixels + at]));
        }
    }

    /// Where the result of a row and a column lies.
    CT_FN u64 place(u32 row, u32 n) const {
        if constexpr (ROLE == CONV_WEIGHT) {
            return ((u64)group * s.features + row) * s.channels * s.taps + n;
        } else {
            bool output = ROLE == CONV_OUTPUT;
            u32 inner = n, sample = split(inner, output ? s.by_positions : s.by_pixels);
            u64 own = output ? s.features : s.channels, size = output ? s.positions : s.pixels;
            return (((u64)sample * s.groups + group) * own + row) * size + inner;
        }
    }
};

const u32 CONV_TILE = 64, CONV_DEPTH = 16;

/// Tiles of 64 x 64: blockIdx.x counts tiles, blockIdx.y groups, blockIdx.z parts of the steps. With one
/// part the results go to `out`, with the bias of their row; with more to `sums`, part after part.
template <class T, class V, u32 ROLE>
__global__ void conv_product(ConvShape s, u64 results, T* out, V* sums, const T* a, const T* b, const T* bias) {
    __shared__ V left[CONV_DEPTH][CONV_TILE + 1], right[CONV_DEPTH][CONV_TILE + 1];
    u32 thread = threadIdx.x, tx = thread % 16, ty = thread / 16;
    for (u32 group = blockIdx.y; group < s.groups; group += gridDim.y) {
        ConvProduct<ROLE, T, V> product{s, a, b, group};
        u32 rows = product.rows(), columns = product.columns(), steps = product.steps();
        u32 across = (columns + CONV_TILE - 1) / CONV_TILE;
        u32 row0 = blockIdx.x / across * CONV_TILE, col0 = blockIdx.x % across * CONV_TILE;
        u32 first = blockIdx.z * s.each, end = steps - first < s.each ? steps : first + s.each;
        // The weight's gradient reads both factors along the steps, the others the right one along columns.
        const bool by_steps = ROLE == CONV_WEIGHT;
        typename ConvProduct<ROLE, T, V>::Column known[4];
        #pragma unroll
        for (int part = 0; part < (by_steps ? 4 : 1); part++) {
            u32 i = thread + part * 256, col = col0 + (by_steps ? i / CONV_DEPTH : i % CONV_TILE);
            known[part] = product.column(col < columns ? col : 0);
        }
        V total[4][4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) total[i][j] = lit<V>(0.0);
        }
        for (u32 depth = first; depth < end; depth += CONV_DEPTH) {
            #pragma unroll
            for (int part = 0; part < 4; part++) {
                u32 i = thread + part * 256, row = i / CONV_DEPTH, step = i % CONV_DEPTH;
                bool inside = row0 + row < rows && depth + step < end;
                left[step][row] = inside ? product.left(row0 + row, depth + step) : lit<V>(0.0);
                u32 col = by_steps ? row : i % CONV_TILE;
                if (!by_steps) step = i / CONV_TILE;
                inside = col0 + col < columns && depth + step < end;
                right[step][col] = inside ? product.right(known[by_steps ? part : 0], depth + step) : lit<V>(0.0);
            }
            __syncthreads();
            #pragma unroll
            for (u32 step = 0; step < CONV_DEPTH; step++) {
                V x[4], y[4];
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    x[i] = left[step][ty + 16 * i];
                    y[i] = right[step][tx + 16 * i];
                }
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    #pragma unroll
                    for (int j = 0; j < 4; j++) total[i][j] = mul_add(x[i], y[j], total[i][j]);
                }
            }
            __syncthreads();
        }
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 row = row0 + ty + 16 * i, col = col0 + tx + 16 * j;
                if (row >= rows || col >= columns) continue;
                u64 at = product.place(row, col);
                if (sums) {
                    sums[blockIdx.z * results + at] = total[i][j];
                } else {
                    V value = total[i][j];
                    if (bias) value = value + to<V>(widen(bias[group * rows + row]));
                    out[at] = narrow<T>(value);
                }
            }
        }
    }
}

/// Few rows, as of depthwise convolutions: a thread per result.
template <class T, class V, u32 ROLE>
__global__ void conv_direct(ConvShape s, u64 results, T* out, const T* a, const T* b, const T* bias) {
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= results) return;
    u32 size = ROLE == CONV_OUTPUT ? s.positions : s.pixels;
    u32 inner = results <= 0xffffffffu ? (u32)n % size : (u32)(n % size);
    u64 plane = (n - inner) / size;
    u32 per = ROLE == CONV_OUTPUT ? s.features : s.channels;
    u32 channel = (u32)(plane % ((u64)per * s.groups)), sample = (u32)(plane / ((u64)per * s.groups));
    ConvProduct<ROLE, T, V> product{s, a, b, channel / per};
    typename ConvProduct<ROLE, T, V>::Column column;
    column.first = sample;
    if (ROLE == CONV_OUTPUT) conv_place(inner, s.by_output, column.at);
    else conv_place(inner, s.by_image, column.at);
    V sum = lit<V>(0.0);
    u32 steps = product.steps();
    for (u32 step = 0; step < steps; step++) {
        sum = mul_add(product.left(channel % per, step), product.right(column, step), sum);
    }
    if (bias) sum = sum + to<V>(widen(bias[channel]));
    out[n] = narrow<T>(sum);
}

/// A block per element of the weight's gradient.
template <class T, class V>
__global__ void conv_direct_weight(ConvShape s, T* out, const T* a, const T* b) {
    CT_DYN_SMEM(V, shared);
    u32 columns = s.channels * s.taps;
    u32 row = blockIdx.x / columns, col = blockIdx.x % columns;
    ConvProduct<CONV_WEIGHT, T, V> product{s, a, b, row / s.features};
    typename ConvProduct<CONV_WEIGHT, T, V>::Column column = product.column(col);
    V sum = lit<V>(0.0);
    u32 steps = product.steps();
    for (u32 step = threadIdx.x; step < steps; step += blockDim.x) {
        sum = mul_add(product.left(row % s.features, step), product.right(column, step), sum);
    }
    sum = block_combine(sum, shared, Added());
    if (threadIdx.x == 0) out[blockIdx.x] = narrow<T>(sum);
}

/// Adds up the parts of `conv_product`, and the bias of the channel.
template <class T, class V>
__global__ void conv_total(u64 results, u32 parts, u64 inner, u32 channels, T* out, const V* sums, const T* bias) {
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= results) return;
    V sum = sums[n];
    for (u32 part = 1; part < parts; part++) sum = sum + sums[part * results + n];
    if (bias) sum = sum + to<V>(widen(bias[n / inner % channels]));
    out[n] = narrow<T>(sum);
}

}  // namespace ct
