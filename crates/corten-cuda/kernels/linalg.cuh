// Factorisations of matrices and what is solved with them: one block to a matrix, or to a tile of right-hand
// sides. Matrices lie by columns unless a kernel takes both strides.

namespace ct {

/// A batch of matrices: element (i, j) of matrix b is at b * batch + i * row + j * column.
struct LaView {
    i64 row, column, batch;
};

CT_FN float la_real(float x) { return x; }
CT_FN double la_real(double x) { return x; }
template <class R> CT_FN R la_real(Complex<R> x) { return x.re; }
CT_FN float la_imag(float) { return 0; }
CT_FN double la_imag(double) { return 0; }
template <class R> CT_FN R la_imag(Complex<R> x) { return x.im; }
/// |re| + |im|, by which LAPACK compares pivots.
template <class T> CT_FN typename real_of<T>::type la_size(T x) {
    typename real_of<T>::type re = la_real(x), im = la_imag(x);
    return (re < 0 ? -re : re) + (im < 0 ? -im : im);
}
template <class T> CT_FN typename real_of<T>::type la_square(T x) {
    return la_real(x) * la_real(x) + la_imag(x) * la_imag(x);
}
template <class T> struct LaFrom {
    CT_FN static T real(T x) { return x; }
    CT_FN static T parts(T re, T) { return re; }
    CT_FN static T scaled(T x, T by) { return x * by; }
    CT_FN static T over(T x, T by) { return x / by; }
};
template <class R> struct LaFrom<Complex<R>> {
    CT_FN static Complex<R> real(R x) { return Complex<R>(x, 0); }
    CT_FN static Complex<R> parts(R re, R im) { return Complex<R>(re, im); }
    CT_FN static Complex<R> scaled(Complex<R> x, R by) { return Complex<R>(x.re * by, x.im * by); }
    CT_FN static Complex<R> over(Complex<R> x, R by) { return Complex<R>(x.re / by, x.im / by); }
};
template <class T> CT_FN T la_conj(T x, bool conjugated) { return conjugated ? conj(x) : x; }

CT_FN float la_warp_sum(float x) {
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
CT_FN double la_warp_sum(double x) {
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
template <class R> CT_FN Complex<R> la_warp_sum(Complex<R> x) {
    return Complex<R>(la_warp_sum(x.re), la_warp_sum(x.im));
}

#define LA_THREADS 256

/// What a block of LA_THREADS threads shares to find a maximum.
template <class R> struct LaLargest {
    R size[LA_THREADS];
    u32 at[LA_THREADS];
};

/// The largest of what the threads have, the first one among equals; all get it.
template <class R> CT_FN u32 la_largest(LaLargest<R>& shared, R size, u32 at, R& most) {
    u32 t = threadIdx.x;
    shared.size[t] = size;
    shared.at[t] = at;
    __syncthreads();
    for (u32 half = LA_THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            R other = shared.size[t + half];
            u32 place = shared.at[t + half];
            if (other > shared.size[t] || (other == shared.size[t] && place < shared.at[t])) {
                shared.size[t] = other;
                shared.at[t] = place;
            }
        }
        __syncthreads();
    }
    most = shared.size[0];
    u32 found = shared.at[0];
    __syncthreads();
    return found;
}

/// The Cholesky factor of the lower triangle in place, unless `info` tells that an earlier block has failed.
template <class T> __global__ void cholesky(T* data, LaView view, i32* info, u32 n, u32 first) {
    typedef typename real_of<T>::type R;
    T* a = data + blockIdx.x * view.batch;
    i64 lda = view.column;
    __shared__ i32 failed;
    if (threadIdx.x == 0) failed = info[blockIdx.x];
    __syncthreads();
    if (failed) return;
    for (u32 k = 0; k < n; k++) {
        R pivot = la_real(a[k + k * lda]);
        if (!(pivot > 0)) {
            if (threadIdx.x == 0) info[blockIdx.x] = (i32)(first + k + 1);
            return;
        }
        R root = sqrt(pivot);
        u32 rest = n - k - 1;
        for (u32 i = threadIdx.x; i < rest; i += blockDim.x) {
            T& at = a[k + 1 + i + k * lda];
            at = LaFrom<T>::over(at, root);
        }
        __syncthreads();
        if (threadIdx.x == 0) a[k + k * lda] = LaFrom<T>::real(root);
        for (u32 t = threadIdx.x; t < rest * rest; t += blockDim.x) {
            u32 j = t / rest, i = t - j * rest;
            if (i < j) continue;
            T& at = a[k + 1 + i + (k + 1 + j) * lda];
            at = at - a[k + 1 + i + k * lda] * conj(a[k + 1 + j + k * lda]);
        }
        __syncthreads();
    }
}

/// The LU factors of some columns in place; rows are exchanged within these columns only.
template <class T, u32 PIVOT>
__global__ void lu_panel(T* data, LaView view, u32 m, u32 n, i32* pivots, u32 pivot_stride, i32* info, u32 first) {
    typedef typename real_of<T>::type R;
    __shared__ LaLargest<R> shared;
    T* a = data + blockIdx.x * view.batch;
    i32* own = pivots + (u64)blockIdx.x * pivot_stride;
    i64 lda = view.column;
    u32 steps = m < n ? m : n;
    for (u32 k = 0; k < steps; k++) {
        u32 pivot = k;
        R most = 0;
        if (PIVOT) {
            R size = -1;
            u32 at = m;
            for (u32 i = k + threadIdx.x; i < m; i += blockDim.x) {
                R other = la_size(a[i + k * lda]);
                if (other > size) size = other, at = i;
            }
            pivot = la_largest(shared, size, at, most);
            if (pivot >= m) pivot = k;
            if (pivot != k) {
                for (u32 j = threadIdx.x; j < n; j += blockDim.x) {
                    T x = a[k + j * lda];
                    a[k + j * lda] = a[pivot + j * lda];
                    a[pivot + j * lda] = x;
                }
            }
        }
        __syncthreads();
        T diagonal = a[k + k * lda];
        if (threadIdx.x == 0) {
            own[k] = (i32)(first + pivot + 1);
            if (la_size(diagonal) == 0 && info[blockIdx.x] == 0) info[blockIdx.x] = (i32)(first + k + 1);
        }
        if (la_size(diagonal) != 0) {
            for (u32 i = k + 1 + threadIdx.x; i < m; i += blockDim.x) a[i + k * lda] = a[i + k * lda] / diagonal;
        }
        __syncthreads();
        u32 rows = m - k - 1, columns = n - k - 1;
        for (u64 t = threadIdx.x; t < (u64)rows * columns; t += blockDim.x) {
            u32 j = (u32)(t / rows), i = (u32)(t - (u64)j * rows);
            T& at = a[k + 1 + i + (k + 1 + j) * lda];
            at = at - a[k + 1 + i + k * lda] * a[k + (k + 1 + j) * lda];
        }
        __syncthreads();
    }
}

/// Exchanges rows as the pivots tell, first to last or, BACKWARD, last to first: one thread to a column.
template <class T, u32 BACKWARD>
__global__ void swap_rows(T* data, LaView view, u32 rows, u32 columns, const i32* pivots, i64 pivot_stride, u32 begin,
                          u32 end, u32* failure) {
    u32 j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns) return;
    T* x = data + blockIdx.y * view.batch + j * view.column;
    const i32* own = pivots + blockIdx.y * pivot_stride;
    for (u32 t = begin; t < end; t++) {
        u32 k = BACKWARD ? end - 1 - (t - begin) : t;
        i64 other = (i64)own[k] - 1;
        if (other < 0 || other >= rows) { *failure = 1; continue; }
        T held = x[k * view.row];
        x[k * view.row] = x[other * view.row];
        x[other * view.row] = held;
    }
}

/// The rows of the ones in the columns of permutation matrices: one thread to a matrix.
template <class T>
__global__ void lu_permutation(T* out, i64* order, const i32* pivots, u32 rows, u32 steps, u32 batches, u32* failure) {
    u32 b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batches) return;
    i64* own = order + (u64)b * rows;
    for (u32 i = 0; i < rows; i++) own[i] = i;
    for (u32 k = 0; k < steps; k++) {
        i64 other = (i64)pivots[(u64)b * steps + k] - 1;
        if (other < 0 || other >= rows) { *failure = 1; continue; }
        i64 held = own[k];
        own[k] = own[other];
        own[other] = held;
    }
    for (u32 i = 0; i < rows; i++) out[((u64)b * rows + own[i]) * rows + i] = LaFrom<T>::real(1);
}

#define LA_ORDER 64
#define LA_COLUMNS 16

/// Solves with a triangular matrix of at most LA_ORDER rows for a tile of LA_COLUMNS right-hand sides.
template <class T, u32 UPPER, u32 UNIT, u32 CONJ>
__global__ void solve_triangle(const T* triangle, LaView av, T* sides, LaView xv, u32 n, u32 columns) {
    __shared__ T x[LA_ORDER][LA_COLUMNS + 1];
    u32 first = blockIdx.x * LA_COLUMNS, width = columns - first < LA_COLUMNS ? columns - first : LA_COLUMNS;
    const T* a = triangle + blockIdx.y * av.batch;
    T* b = sides + blockIdx.y * xv.batch + first * xv.column;
    bool rows_first = xv.row <= xv.column;
    for (u32 t = threadIdx.x; t < n * width; t += blockDim.x) {
        u32 i = rows_first ? t % n : t / width, j = rows_first ? t / n : t % width;
        x[i][j] = b[i * xv.row + j * xv.column];
    }
    for (u32 step = 0; step < n; step++) {
        u32 k = UPPER ? n - 1 - step : step, from = UPPER ? 0 : k + 1, count = n - 1 - step;
        __syncthreads();
        if (!UNIT) {
            if (threadIdx.x < width) x[k][threadIdx.x] = x[k][threadIdx.x] / la_conj(a[k * av.row + k * av.column], CONJ);
            __syncthreads();
        }
        for (u32 t = threadIdx.x; t < count * LA_COLUMNS; t += blockDim.x) {
            u32 i = from + t / LA_COLUMNS, j = t % LA_COLUMNS;
            if (j < width) x[i][j] = x[i][j] - la_conj(a[i * av.row + k * av.column], CONJ) * x[k][j];
        }
    }
    __syncthreads();
    for (u32 t = threadIdx.x; t < n * width; t += blockDim.x) {
        u32 i = rows_first ? t % n : t / width, j = rows_first ? t / n : t % width;
        b[i * xv.row + j * xv.column] = x[i][j];
    }
}

/// C -= A B, by tiles of 32 x 32 with four results to a thread; CONJ 1 for conj(A), 2 for conj(B).
template <class T, u32 CONJ>
__global__ void subtract_product(T* c, LaView cv, const T* a, LaView av, const T* b, LaView bv, u32 m, u32 n, u32 k) {
    __shared__ T left[16][33], right[16][33];
    a += blockIdx.z * av.batch, b += blockIdx.z * bv.batch, c += blockIdx.z * cv.batch;
    u32 row = blockIdx.x * 32, column = blockIdx.y * 32, tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    T sums[4];
    for (int r = 0; r < 4; r++) sums[r] = LaFrom<T>::real(0);
    for (u32 start = 0; start < k; start += 16) {
        for (u32 t = threadIdx.x; t < 512; t += LA_THREADS) {
            u32 i = t % 32, s = t / 32;
            bool inside = row + i < m && start + s < k;
            left[s][i] = inside ? la_conj(a[(row + i) * av.row + (start + s) * av.column], CONJ & 1) : LaFrom<T>::real(0);
            inside = column + i < n && start + s < k;
            right[s][i] = inside ? la_conj(b[(start + s) * bv.row + (column + i) * bv.column], CONJ & 2) : LaFrom<T>::real(0);
        }
        __syncthreads();
        #pragma unroll
        for (u32 s = 0; s < 16; s++) {
            #pragma unroll
            for (u32 r = 0; r < 4; r++) sums[r] = sums[r] + left[s][tx] * right[s][ty + 8 * r];
        }
        __syncthreads();
    }
    for (u32 r = 0; r < 4; r++) {
        u32 j = column + ty + 8 * r;
        if (row + tx >= m || j >= n) continue;
        T& at = c[(row + tx) * cv.row + j * cv.column];
        at = at - sums[r];
    }
}

/// Sums over a block, the same for all; `shared` has LA_THREADS / 32 elements.
template <class T> CT_FN T la_block_sum(T x, T* shared) {
    x = la_warp_sum(x);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    T sum = shared[0];
    for (u32 w = 1; w < LA_THREADS / 32; w++) sum = sum + shared[w];
    __syncthreads();
    return sum;
}

/// x -= factor (v^H x) v for a vector of `rows` numbers of which the first is taken as one: by a warp.
template <class T> CT_FN void la_reflect(const T* v, T* x, u32 rows, T factor) {
    u32 lane = threadIdx.x % 32;
    T sum = LaFrom<T>::real(0);
    for (u32 i = lane; i < rows; i += 32) sum = sum + (i == 0 ? x[0] : conj(v[i]) * x[i]);
    sum = la_warp_sum(sum) * factor;
    for (u32 i = lane; i < rows; i += 32) x[i] = x[i] - (i == 0 ? sum : v[i] * sum);
    __syncwarp();
}

/// The QR factorisation of some columns in place: reflections below the diagonal, R above.
template <class T> __global__ void qr_panel(T* data, LaView view, u32 m, u32 n, T* factors, u32 factor_stride) {
    typedef typename real_of<T>::type R;
    __shared__ LaLargest<R> shared;
    __shared__ R sums[LA_THREADS / 32];
    T* a = data + blockIdx.x * view.batch;
    T* own = factors + (u64)blockIdx.x * factor_stride;
    i64 lda = view.column;
    u32 steps = m < n ? m : n, warp = threadIdx.x / 32;
    for (u32 k = 0; k < steps; k++) {
        T* column = a + k + k * lda;
        u32 rows = m - k;
        // The norm of the numbers below, divided by the largest of them so that no square overflows.
        R size = 0, largest;
        for (u32 i = 1 + threadIdx.x; i < rows; i += blockDim.x) size = fmax(size, la_size(column[i]));
        la_largest(shared, size, 0u, largest);
        R sum = 0;
        if (largest > 0) {
            for (u32 i = 1 + threadIdx.x; i < rows; i += blockDim.x) sum += la_square(LaFrom<T>::over(column[i], largest));
        }
        sum = la_block_sum(sum, sums);
        T alpha = column[0], factor = LaFrom<T>::real(0);
        R below = largest * sqrt(sum);
        if (below != 0 || la_imag(alpha) != 0) {
            R norm = hypot(hypot(la_real(alpha), la_imag(alpha)), below);
            R beta = la_real(alpha) >= 0 ? -norm : norm;
            factor = LaFrom<T>::parts((beta - la_real(alpha)) / beta, -la_imag(alpha) / beta);
            T divisor = alpha - LaFrom<T>::real(beta);
            for (u32 i = 1 + threadIdx.x; i < rows; i += blockDim.x) column[i] = column[i] / divisor;
            __syncthreads();
            if (threadIdx.x == 0) column[0] = LaFrom<T>::real(beta);
        }
        if (threadIdx.x == 0) own[k] = factor;
        __syncthreads();
        for (u32 j = k + 1 + warp; j < n; j += LA_THREADS / 32) la_reflect(column, a + k + j * lda, rows, conj(factor));
        __syncthreads();
    }
}

/// Multiplies columns with a product of reflections, or with its adjoint: a warp to a column.
template <class T, u32 ADJOINT>
__global__ void apply_reflections(const T* vectors, LaView vv, const T* factors, i64 factor_stride, u32 count, u32 rows,
                                  T* data, LaView view, u32 columns) {
    u32 j = blockIdx.x * (LA_THREADS / 32) + threadIdx.x / 32;
    if (j >= columns) return;
    T* x = data + blockIdx.y * view.batch + j * view.column;
    const T* v = vectors + blockIdx.y * vv.batch;
    const T* own = factors + blockIdx.y * factor_stride;
    for (u32 step = 0; step < count; step++) {
        u32 k = ADJOINT ? step : count - 1 - step;
        la_reflect(v + k + k * vv.column, x + k, rows - k, la_conj(own[k], ADJOINT));
    }
}

}  // namespace ct
