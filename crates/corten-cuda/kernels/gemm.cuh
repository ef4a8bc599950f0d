// Products of matrices and batches of them at any strides: tiles of 64 x 64 in registers, 4 x 4 of each
// thread, from tiles of both factors in shared memory. Long sums of small results are split over blocks and
// joined in a fixed order.

namespace ct {

/// Sizes, the length of a part of the sum, how many parts there are, and the distances of elements in the
/// factors, the result and what is added (batch, row, column).
struct GemmShape {
    u32 batches, m, n, k, chunk, parts;
    i64 a[3], b[3], c[3], base[3];
};

const int GEMM_TILE = 64, GEMM_DEPTH = 16;

/// What is done to sums before they are stored; GELU is the approximation by tanh.
enum Activation { NO_ACTIVATION, RELU, GELU };

template <u32 ACTIVATION, class V> CT_FN V activated(V x) {
    if constexpr (ACTIVATION == RELU) return x < 0 ? (V)0 : x;
    if constexpr (ACTIVATION == GELU) {
        V inner = (V)0.7978845608028654 * (x + (V)0.044715 * x * x * x);
        return (V)0.5 * x * ((V)1 + tanh(inner));
    }
    return x;
}

/// c = activation(alpha * sum + beta * base) at one place; where beta is 0, base is not read.
template <u32 ACTIVATION, class Out, class V>
CT_FN void gemm_store(
    const GemmShape& g, V sum, const Out* base, Out* c, V alpha, V beta, u32 batch, u32 row, u32 col) {
    sum = alpha * sum;
    if (ne(beta, lit<V>(0.0))) {
        sum = sum + beta * to<V>(widen(base[batch * g.base[0] + row * g.base[1] + col * g.base[2]]));
    }
    c[batch * g.c[0] + row * g.c[1] + col * g.c[2]] = narrow<Out>(activated<ACTIVATION>(sum));
}

/// c = activation(alpha * a @ b + beta * base). V is what sums are accumulated in; where the sum has several
/// parts, they go to `partial` and `gemm_join` does the rest.
template <class Out, class A, class B, class V, u32 ACTIVATION>
__global__ void gemm(
    GemmShape g, const A* a, const B* b, const Out* base, Out* c, V* partial, Numbers numbers) {
    __shared__ V left[GEMM_DEPTH][GEMM_TILE + 1], right[GEMM_DEPTH][GEMM_TILE + 1];
    Values<V> factors(numbers);
    u32 thread = threadIdx.x, tx = thread % 16, ty = thread / 16;
    u32 columns = (g.n + GEMM_TILE - 1) / GEMM_TILE;
    u32 row0 = blockIdx.x / columns * GEMM_TILE, col0 = blockIdx.x % columns * GEMM_TILE;
    u32 first = blockIdx.z * g.chunk, last = first + g.chunk < g.k ? first + g.chunk : g.k;
    for (u32 batch = blockIdx.y; batch < g.batches; batch += gridDim.y) {
        V sums[4][4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) sums[i][j] = lit<V>(0.0);
        }
        for (u32 depth = first; depth < last; depth += GEMM_DEPTH) {
            #pragma unroll
            for (int part = 0; part < 4; part++) {
                // Neighbouring threads load neighbours in memory, whichever way the factor lies.
                u32 i = thread + part * 256;
                u32 row = g.a[2] == 1 ? i / GEMM_DEPTH : i % GEMM_TILE;
                u32 step = g.a[2] == 1 ? i % GEMM_DEPTH : i / GEMM_TILE;
                bool inside = row0 + row < g.m && depth + step < last;
                left[step][row] = inside
                    ? to<V>(widen(a[batch * g.a[0] + (row0 + row) * g.a[1] + (depth + step) * g.a[2]]))
                    : lit<V>(0.0);
                u32 col = g.b[2] == 1 ? i % GEMM_TILE : i / GEMM_DEPTH;
                step = g.b[2] == 1 ? i / GEMM_TILE : i % GEMM_DEPTH;
                inside = col0 + col < g.n && depth + step < last;
                right[step][col] = inside
                    ? to<V>(widen(b[batch * g.b[0] + (depth + step) * g.b[1] + (col0 + col) * g.b[2]]))
                    : lit<V>(0.0);
            }
            __syncthreads();
            #pragma unroll
            for (int step = 0; step < GEMM_DEPTH; step++) {
                V x[4], y[4];
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    x[i] = left[step][ty + 16 * i];
                    y[i] = right[step][tx + 16 * i];
                }
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    #pragma unroll
                    for (int j = 0; j < 4; j++) sums[i][j] = mul_add(x[i], y[j], sums[i][j]);
                }
            }
            __syncthreads();
        }
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 row = row0 + ty + 16 * i, col = col0 + tx + 16 * j;
                if (row >= g.m || col >= g.n) continue;
                if (g.parts > 1) {
                    u64 place = (u64)blockIdx.z * g.batches + batch;
                    partial[(place * g.m + row) * g.n + col] = sums[i][j];
                } else {
                    gemm_store<ACTIVATION>(
                        g, sums[i][j], base, c, factors.at[0], factors.at[1], batch, row, col);
                }
            }
        }
    }
}

/// The sum of the parts of every element, in their order.
template <class Out, class V, u32 ACTIVATION>
__global__ void gemm_join(GemmShape g, const V* partial, const Out* base, Out* c, Numbers numbers) {
    Values<V> factors(numbers);
    u64 count = (u64)g.batches * g.m * g.n, i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    V sum = partial[i];
    for (u32 part = 1; part < g.parts; part++) sum = sum + partial[part * count + i];
    u64 row = i / g.n;
    gemm_store<ACTIVATION>(
        g, sum, base, c, factors.at[0], factors.at[1], (u32)(row / g.m), (u32)(row % g.m), (u32)(i % g.n));
}

const int GEMV_ROWS = 8;

/// A matrix times a vector whose sums run along memory: a warp's worth of threads for each row, several
/// elements of each thread in one load. A batch has the vectors of its own. Where WIDTH is not 1, the elements of
/// the vector are neighbours, too.
template <class Out, class A, class B, class V, u32 ACTIVATION, u32 WIDTH>
__global__ void gemv_rows(
    GemmShape g, const A* a, const B* b, const Out* base, Out* c, V* partial, Numbers numbers) {
    __shared__ V sums[GEMV_ROWS][33];
    Values<V> factors(numbers);
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32, row = blockIdx.x * GEMV_ROWS + line;
    u32 first = blockIdx.z * g.chunk, last = first + g.chunk < g.k ? first + g.chunk : g.k;
    for (u32 batch = blockIdx.y; batch < g.batches; batch += gridDim.y) {
        V sum[WIDTH];
        #pragma unroll
        for (int w = 0; w < WIDTH; w++) sum[w] = lit<V>(0.0);
        if (row < g.m) {
            const A* from = a + batch * g.a[0] + row * g.a[1];
            const B* with = b + batch * g.b[0];
            u32 step = first + lane * WIDTH;
            #pragma unroll 4
            for (; step + WIDTH <= last; step += 32 * WIDTH) {
                Pack<A, WIDTH> x = *reinterpret_cast<const Pack<A, WIDTH>*>(from + step);
                Pack<B, WIDTH> y = *reinterpret_cast<const Pack<B, WIDTH>*>(with + (WIDTH > 1 ? step : step * g.b[1]));
                #pragma unroll
                for (int w = 0; w < WIDTH; w++) {
                    sum[w] = mul_add(to<V>(widen(x.v[w])), to<V>(widen(y.v[w])), sum[w]);
                }
            }
            for (; step < last; step++) {
                sum[0] = mul_add(to<V>(widen(from[step])), to<V>(widen(with[step * g.b[1]])), sum[0]);
            }
        }
        #pragma unroll
        for (int w = 1; w < WIDTH; w++) sum[0] = sum[0] + sum[w];
        sums[line][lane] = sum[0];
        for (u32 half = 16; half > 0; half /= 2) {
            __syncthreads();
            if (lane < half) sums[line][lane] = sums[line][lane] + sums[line][lane + half];
        }
        if (lane == 0 && row < g.m) {
            V total = sums[line][0];
            if (g.parts > 1) {
                partial[((u64)blockIdx.z * g.batches + batch) * g.m + row] = total;
            } else {
                gemm_store<ACTIVATION>(g, total, base, c, factors.at[0], factors.at[1], batch, row, 0);
            }
        }
        __syncthreads();
    }
}

/// A matrix times a vector where rows are neighbours in memory: WIDTH rows of a thread in one load, 32 * WIDTH rows
/// of a block, each by 8 threads that share its sum.
template <class Out, class A, class B, class V, u32 ACTIVATION, u32 WIDTH>
__global__ void gemv_columns(
    GemmShape g, const A* a, const B* b, const Out* base, Out* c, V* partial, Numbers numbers) {
    __shared__ V sums[GEMV_ROWS][32 * WIDTH];
    Values<V> factors(numbers);
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32, row = (blockIdx.x * 32 + lane) * WIDTH;
    u32 first = blockIdx.z * g.chunk, last = first + g.chunk < g.k ? first + g.chunk : g.k;
    for (u32 batch = blockIdx.y; batch < g.batches; batch += gridDim.y) {
        const A* from = a + batch * g.a[0] + row;
        const B* with = b + batch * g.b[0];
        V sum[WIDTH];
        #pragma unroll
        for (int w = 0; w < WIDTH; w++) sum[w] = lit<V>(0.0);
        if (row + WIDTH <= g.m) {
            #pragma unroll 4
            for (u32 step = first + line; step < last; step += GEMV_ROWS) {
                Pack<A, WIDTH> x = *reinterpret_cast<const Pack<A, WIDTH>*>(from + step * g.a[2]);
                V y = to<V>(widen(with[step * g.b[1]]));
                #pragma unroll
                for (int w = 0; w < WIDTH; w++) sum[w] = mul_add(to<V>(widen(x.v[w])), y, sum[w]);
            }
        } else {
            for (u32 step = first + line; step < last; step += GEMV_ROWS) {
                V y = to<V>(widen(with[step * g.b[1]]));
                #pragma unroll
                for (int w = 0; w < WIDTH; w++) {
                    if (row + w < g.m) sum[w] = mul_add(to<V>(widen(from[step * g.a[2] + w])), y, sum[w]);
                }
            }
        }
        #pragma unroll
        for (int w = 0; w < WIDTH; w++) sums[line][w * 32 + lane] = sum[w];
        __syncthreads();
        // The place w * 32 + lane of a line is row lane * WIDTH + w.
        u32 place = threadIdx.x, at = blockIdx.x * 32 * WIDTH + place % 32 * WIDTH + place / 32;
        if (place < 32 * WIDTH && at < g.m) {
            V total = sums[0][place];
            for (int i = 1; i < GEMV_ROWS; i++) total = total + sums[i][place];
            if (g.parts > 1) {
                partial[((u64)blockIdx.z * g.batches + batch) * g.m + at] = total;
            } else {
                gemm_store<ACTIVATION>(g, total, base, c, factors.at[0], factors.at[1], batch, at, 0);
            }
        }
        __syncthreads();
    }
}

}  // namespace ct
