// Products of matrices and batches of them at any strides: tiles of 64 x 64 in registers, 4 x 4 of each
// thread, from tiles of both factors in shared memory.

namespace ct {

/// Sizes, and the distances of elements in the three matrices (batch, row, column).
struct GemmShape {
    u32 batches, m, n, k;
    i64 a[3], b[3], c[3];
};

const int GEMM_TILE = 64, GEMM_DEPTH = 16;

/// c = alpha * a @ b + beta * c; where beta is 0, c is not read. V is what sums are accumulated in.
template <class Out, class In, class V>
__global__ void gemm(GemmShape g, const In* a, const In* b, Out* c, Numbers numbers) {
    __shared__ V left[GEMM_DEPTH][GEMM_TILE + 1], right[GEMM_DEPTH][GEMM_TILE + 1];
    Values<V> factors(numbers);
    V alpha = factors.at[0], beta = factors.at[1];
    u32 thread = threadIdx.x, tx = thread % 16, ty = thread / 16;
    u32 columns = (g.n + GEMM_TILE - 1) / GEMM_TILE;
    u32 row0 = blockIdx.x / columns * GEMM_TILE, col0 = blockIdx.x % columns * GEMM_TILE;
    for (u32 batch = blockIdx.y; batch < g.batches; batch += gridDim.y) {
        V sums[4][4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) sums[i][j] = lit<V>(0.0);
        }
        for (u32 depth = 0; depth < g.k; depth += GEMM_DEPTH) {
            #pragma unroll
            for (int part = 0; part < 4; part++) {
                // Neighbouring threads load neighbours in memory, whichever way the factor lies.
                u32 i = thread + part * 256;
                u32 row = g.a[2] == 1 ? i / GEMM_DEPTH : i % GEMM_TILE;
                u32 step = g.a[2] == 1 ? i % GEMM_DEPTH : i / GEMM_TILE;
                bool inside = row0 + row < g.m && depth + step < g.k;
                left[step][row] = inside
                    ? to<V>(widen(a[batch * g.a[0] + (row0 + row) * g.a[1] + (depth + step) * g.a[2]]))
                    : lit<V>(0.0);
                u32 col = g.b[2] == 1 ? i % GEMM_TILE : i / GEMM_DEPTH;
                step = g.b[2] == 1 ? i / GEMM_TILE : i % GEMM_DEPTH;
                inside = col0 + col < g.n && depth + step < g.k;
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
        bool reads = ne(beta, lit<V>(0.0));
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 row = row0 + ty + 16 * i, col = col0 + tx + 16 * j;
                if (row >= g.m || col >= g.n) continue;
                Out* at = c + batch * g.c[0] + row * g.c[1] + col * g.c[2];
                V sum = alpha * sums[i][j];
                if (reads) sum = sum + beta * to<V>(widen(*at));
                *at = narrow<Out>(sum);
            }
        }
    }
}

}  // namespace ct
