// Products of small matrices by a warp: tensor cores for 16-bit floats, each thread by itself for others.
//
// Rows and columns of a 16 x 8 block lie in the threads of a warp as `mma.sync.m16n8k16` wants it, for every
// type: with row = lane / 4 and col = lane % 4 * 2, a thread has in a fragment of four numbers the elements
// (row, col), (row, col + 1), (row + 8, col) and (row + 8, col + 1).
//
// The factors of a 16-bit product are pairs of neighbours along the depth, in registers of 32 bits. Those of
// the left factor (16 x 16): (row, col), (row + 8, col), (row, col + 8), (row + 8, col + 8) and each one's right
// neighbour. Those of the right factor (16 x 8): (col, row) and (col + 8, row) and each one's neighbour below,
// so that eight rows of its transpose lie in a warp as eight rows of the left one. Two fragments of sums side
// by side have therefore the layout of a left factor, once they are narrowed.

namespace ct {

template <class T> struct is_half { static const bool value = is_same<T, Half>::value || is_same<T, BFloat16>::value; };

template <class T> struct __align__(16) Bytes16 { T v[16 / sizeof(T)]; };

#if !defined(CT_SIM) && __CUDA_ARCH__ >= 800
#define CT_MMA 1
#endif

/// Two numbers as neighbours of 16 bits, the first one in the lower half.
template <class H> CT_FN u32 narrow_pair(float first, float second) {
#ifdef CT_MMA
    u32 pair;
    if constexpr (is_same<H, Half>::value) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return (u32)narrow<H>(first).bits | (u32)narrow<H>(second).bits << 16;
#endif
}

#ifndef CT_MMA
/// What the threads of a warp let each other see where there are no instructions for it.
const u32 MMA_WARPS = 8;
template <class H> CT_FN float of_pair(u32 pair, u32 part) {
    H number;
    number.bits = (u16)(pair >> 16 * part);
    return widen(number);
}
#endif

/// sums += left @ right, 16 x 16 by 16 x 8.
template <class H> CT_FN void multiply_16x8x16(float* sums, const u32* left, const u32* right) {
#ifdef CT_MMA
#define CT_MMA_TEXT(type) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, " \
        "{%8,%9}, {%0,%1,%2,%3};" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) \
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]))
    if constexpr (is_same<H, Half>::value) CT_MMA_TEXT("f16");
    else CT_MMA_TEXT("bf16");
#else
    __shared__ u32 seen[MMA_WARPS][32][6];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, col = lane % 4 * 2;
    for (int i = 0; i < 4; i++) seen[warp][lane][i] = left[i];
    for (int i = 0; i < 2; i++) seen[warp][lane][4 + i] = right[i];
    __syncwarp();
    for (u32 k = 0; k < 16; k++) {
        // The thread and the register that have an element of the depth `k`.
        u32 owner = k % 8 / 2, high = k / 8, part = k % 2;
        for (int i = 0; i < 4; i++) {
            float a = of_pair<H>(seen[warp][row * 4 + owner][2 * high + i / 2], part);
            float b = of_pair<H>(seen[warp][(col + i % 2) * 4 + owner][4 + high], part);
            sums[i] = fmaf(a, b, sums[i]);
        }
    }
    __syncwarp();
#endif
}

/// Four blocks of 8 x 8 elements of 16 bits from shared memory. Thread 8 * i + r of a warp has the address of
/// row r of block i; a thread gets of each block the pair (row, col), (row, col + 1), or with TRANSPOSED the pair
/// (col, row), (col + 1, row). Rows are aligned to 16 bytes.
template <bool TRANSPOSED, class H> CT_FN void load_blocks(u32* pairs, const H* own_row) {
#ifdef CT_MMA
    u32 address;
    asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(address) : "l"(own_row));
    if constexpr (TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3]) : "r"(address) : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3]) : "r"(address) : "memory");
    }
#else
    __shared__ const H* rows[MMA_WARPS][32];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, col = lane % 4 * 2;
    rows[warp][lane] = own_row;
    __syncwarp();
    for (int i = 0; i < 4; i++) {
        const H* const* block = rows[warp] + 8 * i;
        H first = TRANSPOSED ? block[col][row] : block[row][col];
        H second = TRANSPOSED ? block[col + 1][row] : block[row][col + 1];
        pairs[i] = (u32)first.bits | (u32)second.bits << 16;
    }
    __syncwarp();
#endif
}

/// sums += left @ right^T: 16 rows of `left` and 8 * N of `right` in shared memory, their distances in elements.
/// The depth is a multiple of 16, N of 2; what lies beyond the factors is zero.
template <int N, class T, class V>
CT_FN void multiply_rows(V (*sums)[4], const T* left, u32 left_row, const T* right, u32 right_row, u32 depth) {
    u32 lane = threadIdx.x % 32;
    if constexpr (is_half<T>::value) {
        const T* a = left + (lane % 16) * left_row + lane / 16 * 8;
        const T* b = right + (lane / 16 * 8 + lane % 8) * right_row + lane / 8 % 2 * 8;
        for (u32 k = 0; k < depth; k += 16) {
            u32 pairs[4];
            load_blocks<false>(pairs, a + k);
            #pragma unroll
            for (int n = 0; n < N; n += 2) {
                u32 columns[4];
                load_blocks<false>(columns, b + n * 8 * right_row + k);
                multiply_16x8x16<T>(sums[n], pairs, columns);
                multiply_16x8x16<T>(sums[n + 1], pairs, columns + 2);
            }
        }
    } else {
        const int WIDE = 16 / sizeof(T);
        const T *a = left + lane / 4 * left_row, *b = right + lane % 4 * 2 * right_row;
        for (u32 k = 0; k < depth; k += WIDE) {
            Bytes16<T> upper = *(const Bytes16<T>*)(a + k), lower = *(const Bytes16<T>*)(a + 8 * left_row + k);
            #pragma unroll
            for (int n = 0; n < N; n++) {
                const T* at = b + n * 8 * right_row + k;
                Bytes16<T> first = *(const Bytes16<T>*)at, second = *(const Bytes16<T>*)(at + right_row);
                #pragma unroll
                for (int i = 0; i < WIDE; i++) {
                    sums[n][0] = mul_add(upper.v[i], first.v[i], sums[n][0]);
                    sums[n][1] = mul_add(upper.v[i], second.v[i], sums[n][1]);
                    sums[n][2] = mul_add(lower.v[i], first.v[i], sums[n][2]);
                    sums[n][3] = mul_add(lower.v[i], second.v[i], sums[n][3]);
                }
            }
        }
    }
}

/// sums += left @ right: `left` is K fragments side by side, `right` 8 * K rows of 8 * N columns in shared memory. N
/// and K are multiples of 2.
template <int N, int K, class T, class V>
CT_FN void multiply_fragments(V (*sums)[4], const V (*left)[4], const T* right, u32 right_row) {
    u32 lane = threadIdx.x % 32;
    if constexpr (is_half<T>::value) {
        const T* b = right + lane % 16 * right_row + lane / 16 * 8;
        #pragma unroll
        for (int k = 0; k < K; k += 2) {
            u32 pairs[4];
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                const V* two = left[k + i / 2] + i % 2 * 2;
                pairs[i] = narrow_pair<T>(two[0], two[1]);
            }
            #pragma unroll
            for (int n = 0; n < N; n += 2) {
                u32 columns[4];
                load_blocks<true>(columns, b + k * 8 * right_row + n * 8);
                multiply_16x8x16<T>(sums[n], pairs, columns);
                multiply_16x8x16<T>(sums[n + 1], pairs, columns + 2);
            }
        }
    } else {
        const T* b = right + lane % 4 * 2;
        #pragma unroll
        for (int k = 0; k < K; k++) {
            #pragma unroll
            for (int i = 0; i < 8; i++) {
                // The neighbour that has this element of the depth.
                V upper = __shfl_sync(~0u, left[k][i % 2], lane / 4 * 4 + i / 2);
                V lower = __shfl_sync(~0u, left[k][2 + i % 2], lane / 4 * 4 + i / 2);
                const T* at = b + (k * 8 + i) * right_row;
                #pragma unroll
                for (int n = 0; n < N; n++) {
                    V first = at[n * 8], second = at[n * 8 + 1];
                    sums[n][0] = mul_add(upper, first, sums[n][0]);
                    sums[n][1] = mul_add(upper, second, sums[n][1]);
                    sums[n][2] = mul_add(lower, first, sums[n][2]);
                    sums[n][3] = mul_add(lower, second, sums[n][3]);
                }
            }
        }
    }
}

/// Rows of a matrix into shared memory by all threads of a block, `to_row` apart; zeros beyond `rows` and `cols`
/// up to `all_rows` and `all_cols`. With `wide`, addresses and distances are multiples of 16 bytes.
template <class T>
CT_FN void load_rows(
    T* to, u32 to_row, const T* from, i64 from_row, u32 rows, u32 all_rows, u32 cols, u32 all_cols, bool wide
) {
    const u32 WIDE = 16 / sizeof(T);
    u32 packs = all_cols / WIDE;
    for (u32 i = threadIdx.x; i < all_rows * packs; i += blockDim.x) {
        u32 row = i / packs, col = i % packs * WIDE;
        Bytes16<T> pack;
        const T* at = from + row * from_row + col;
        if (wide && row < rows && col + WIDE <= cols) {
            pack = *(const Bytes16<T>*)at;
        } else {
            #pragma unroll
            for (u32 part = 0; part < WIDE; part++) {
                bool inside = row < rows && col + part < cols;
                pack.v[part] = inside ? at[part] : narrow<T>(0.0f);
            }
        }
        *(Bytes16<T>*)(to + row * to_row + col) = pack;
    }
}

}  // namespace ct
