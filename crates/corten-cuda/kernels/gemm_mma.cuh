// Products of matrices of 16-bit floats by tensor cores: tiles of 32 * M rows and columns of a block of 8 warps, a
// warp having 16 * M rows and 8 * M columns. Each factor has neighbours along its rows or its columns, and lies in
// shared memory as it lies in global memory; blocks are transposed while they are read where that is needed.

namespace ct {

const u32 MMA_DEPTH = 32;

/// As `gemm`.
template <class Out, class T, class B, class V, u32 ACTIVATION, u32 M>
__global__ void __launch_bounds__(256) gemm_tensor_cores(
    GemmShape g, const T* a, const B* b, const Out* base, Out* c, V* partial, Numbers numbers
) {
    CT_DYN_SMEM(T, shared);
    const u32 TILE = 32 * M, SIZE = TILE * (MMA_DEPTH + 8), ALONG = MMA_DEPTH + 8, ACROSS = TILE + 8;
    Values<V> factors(numbers);
    bool along_a = g.a[2] == 1, along_b = g.b[1] == 1 && g.b[2] != 1;
    i64 line_a = along_a ? g.a[1] : g.a[2], line_b = along_b ? g.b[2] : g.b[1];
    bool wide_a = (u64)a % 16 == 0 && g.a[0] % 8 == 0 && line_a % 8 == 0;
    bool wide_b = (u64)b % 16 == 0 && g.b[0] % 8 == 0 && line_b % 8 == 0;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 own_row = warp / 4 * 16 * M, own_col = warp % 4 * 8 * M, columns = (g.n + TILE - 1) / TILE;
    u32 row0 = blockIdx.x / columns * TILE, col0 = blockIdx.x % columns * TILE;
    u32 first = blockIdx.z * g.chunk, last = first + g.chunk < g.k ? first + g.chunk : g.k;
    for (u32 batch = blockIdx.y; batch < g.batches; batch += gridDim.y) {
        const T *of_a = a + batch * g.a[0], *of_b = b + batch * g.b[0];
        auto load = [&](u32 depth, u32 stage) {
            T *to_a = shared + stage * 2 * SIZE, *to_b = to_a + SIZE;
            u32 steps = last - depth, rows = g.m - row0, cols = g.n - col0;
            const T* at = of_a + (along_a ? row0 * line_a + depth : depth * line_a + row0);
            if (along_a) load_rows(to_a, ALONG, at, line_a, rows, TILE, steps, MMA_DEPTH, wide_a);
            else load_rows(to_a, ACROSS, at, line_a, steps, MMA_DEPTH, rows, TILE, wide_a);
            at = of_b + (along_b ? col0 * line_b + depth : depth * line_b + col0);
            if (along_b) load_rows(to_b, ALONG, at, line_b, cols, TILE, steps, MMA_DEPTH, wide_b);
            else load_rows(to_b, ACROSS, at, line_b, steps, MMA_DEPTH, cols, TILE, wide_b);
        };
        V sums[M][M][4] = {};
        if (first < last) load(first, 0);
        for (u32 depth = first; depth < last; depth += MMA_DEPTH) {
            u32 stage = (depth - first) / MMA_DEPTH % 2;
            wait_for_copies();
            __syncthreads();
            if (depth + MMA_DEPTH < last) load(depth + MMA_DEPTH, 1 - stage);
            const T *tile_a = shared + stage * 2 * SIZE, *tile_b = tile_a + SIZE;
            #pragma unroll
            for (u32 k = 0; k < MMA_DEPTH; k += 16) {
                u32 right[M][2];
                #pragma unroll
                for (u32 n = 0; n < M; n += 2) {
                    u32 pairs[4], col = own_col + n * 8 + lane / 16 * 8;
                    if (along_b) load_blocks<false>(pairs, tile_b + (col + lane % 8) * ALONG + k + lane / 8 % 2 * 8);
                    else load_blocks<true>(pairs, tile_b + (k + lane % 16) * ACROSS + col);
                    right[n][0] = pairs[0], right[n][1] = pairs[1];
                    right[n + 1][0] = pairs[2], right[n + 1][1] = pairs[3];
                }
                #pragma unroll
                for (u32 m = 0; m < M; m++) {
                    u32 left[4], row = own_row + m * 16, step = k + lane / 16 * 8;
                    if (along_a) load_blocks<false>(left, tile_a + (row + lane % 16) * ALONG + step);
                    else load_blocks<true>(left, tile_a + (step + lane % 8) * ACROSS + row + lane / 8 % 2 * 8);
                    #pragma unroll
                    for (u32 n = 0; n < M; n++) multiply_16x8x16<T>(sums[m][n], left, right[n]);
                }
            }
        }
        __syncthreads();
        #pragma unroll
        for (u32 m = 0; m < M; m++) {
            #pragma unroll
            for (u32 i = 0; i < 4 * M; i++) {
                u32 row = row0 + own_row + m * 16 + lane / 4 + i % 4 / 2 * 8;
                u32 col = col0 + own_col + i / 4 * 8 + lane % 4 * 2 + i % 2;
                V sum = sums[m][i / 4][i % 4];
                if (row >= g.m || col >= g.n) continue;
                if (g.parts > 1) {
                    u64 place = (u64)blockIdx.z * g.batches + batch;
                    partial[(place * g.m + row) * g.n + col] = sum;
                } else {
                    gemm_store<ACTIVATION>(g, sum, base, c, factors.at[0], factors.at[1], batch, row, col);
                }
            }
        }
    }
}

}  // namespace ct
