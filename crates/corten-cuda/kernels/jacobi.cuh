// Singular values and eigenvalues by one-sided Jacobi rotations: pairs of columns are made orthogonal, a warp to
// a pair, until all are. The same rotations of the identity give the right basis.

namespace ct {

/// Columns of matrices, and of those that are rotated with them.
struct JacobiShape {
    u32 rows, columns, basis_rows;
    i64 column, basis_column, batch, basis_batch;
    double tolerance;
    /// Columns of which the square is smaller count as zero.
    double least;
};

/// Pair `pair` of step `step` of a round in which every column meets every other one once.
CT_FN void jacobi_pair(u32 columns, u32 step, u32 pair, u32& p, u32& q) {
    u32 last = (columns + 1) / 2 * 2 - 1;
    p = pair == 0 ? last : (step + pair) % last;
    q = pair == 0 ? step : (step + last - pair) % last;
    if (p > q) {
        u32 held = p;
        p = q;
        q = held;
    }
}

template <class T, class R> CT_FN void jacobi_turn(T* x, T* y, u32 rows, R c, T s) {
    for (u32 i = threadIdx.x % 32; i < rows; i += 32) {
        T a = x[i], b = y[i];
        x[i] = LaFrom<T>::scaled(a, c) - conj(s) * b;
        y[i] = s * a + LaFrom<T>::scaled(b, c);
    }
}

/// Makes columns p and q orthogonal; whether they were not.
template <class T> CT_FN bool jacobi_rotate(T* a, T* basis, const JacobiShape& s, u32 p, u32 q) {
    typedef typename real_of<T>::type R;
    T *x = a + p * s.column, *y = a + q * s.column;
    R first = 0, second = 0;
    T product = LaFrom<T>::real(0);
    for (u32 i = threadIdx.x % 32; i < s.rows; i += 32) {
        first += la_square(x[i]);
        second += la_square(y[i]);
        product = product + conj(x[i]) * y[i];
    }
    first = la_warp_sum(first), second = la_warp_sum(second), product = la_warp_sum(product);
    R size = hypot(la_real(product), la_imag(product));
    bool wanted = first > (R)s.least && second > (R)s.least && size > (R)s.tolerance * sqrt(first) * sqrt(second);
    if (wanted) {
        R zeta = (second - first) / (2 * size);
        R t = (zeta >= 0 ? (R)1 : (R)-1) / (fabs(zeta) + hypot((R)1, zeta));
        R c = 1 / sqrt(1 + t * t);
        T phase = LaFrom<T>::scaled(LaFrom<T>::over(product, size), c * t);
        jacobi_turn(x, y, s.rows, c, phase);
        jacobi_turn(basis + p * s.basis_column, basis + q * s.basis_column, s.basis_rows, c, phase);
    }
    __syncwarp();
    return wanted;
}

/// All sweeps of a matrix in one block; `info` is 1 where they did not suffice.
template <class T> __global__ void jacobi(T* data, T* basis, JacobiShape s, u32 sweeps, i32* info) {
    T *a = data + blockIdx.x * s.batch, *v = basis + blockIdx.x * s.basis_batch;
    u32 last = (s.columns + 1) / 2 * 2 - 1, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (u32 sweep = 0; sweep < sweeps; sweep++) {
        bool rotated = false;
        for (u32 step = 0; step < last; step++) {
            for (u32 pair = warp; pair < (last + 1) / 2; pair += warps) {
                u32 p, q;
                jacobi_pair(s.columns, step, pair, p, q);
                if (q < s.columns && jacobi_rotate(a, v, s, p, q)) rotated = true;
            }
            __syncthreads();
        }
        if (!__syncthreads_or(rotated)) {
            if (threadIdx.x == 0) info[blockIdx.x] = 0;
            return;
        }
    }
    if (threadIdx.x == 0) info[blockIdx.x] = 1;
}

/// One step of large matrices; `info` counts the rotations.
template <class T> __global__ void jacobi_step(T* data, T* basis, JacobiShape s, u32 step, i32* info) {
    u32 pair = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, p, q;
    if (pair >= (s.columns + 1) / 2) return;
    jacobi_pair(s.columns, step, pair, p, q);
    if (q >= s.columns) return;
    bool rotated = jacobi_rotate(data + blockIdx.y * s.batch, basis + blockIdx.y * s.basis_batch, s, p, q);
    if (rotated && threadIdx.x % 32 == 0) atomicAdd(info + blockIdx.y, 1);
}

/// v^H A v for every column v: a warp to a column.
template <class T>
__global__ void rayleigh(typename real_of<T>::type* out, const T* matrices, const T* basis, u32 n) {
    typedef typename real_of<T>::type R;
    u32 j = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (j >= n) return;
    const T *a = matrices + (u64)blockIdx.y * n * n, *v = basis + (u64)blockIdx.y * n * n + (u64)j * n;
    R sum = 0;
    for (u32 i = 0; i < n; i++) {
        T product = LaFrom<T>::real(0);
        for (u32 k = threadIdx.x % 32; k < n; k += 32) product = product + conj(a[k + (u64)i * n]) * v[k];
        product = la_warp_sum(product);
        sum += la_real(conj(v[i]) * product);
    }
    if (threadIdx.x % 32 == 0) out[(u64)blockIdx.y * n + j] = sum;
}

/// Puts unit vectors that are orthogonal to all others into the columns whose length is at most `least`.
template <class T>
__global__ void complete_basis(T* data, const typename real_of<T>::type* lengths, u32 rows, u32 columns, double least) {
    typedef typename real_of<T>::type R;
    __shared__ LaLargest<R> shared;
    __shared__ T sums[LA_THREADS / 32];
    T* a = data + (u64)blockIdx.x * rows * columns;
    const R* length = lengths + (u64)blockIdx.x * columns;
    for (u32 j = 0; j < columns; j++) {
        if (length[j] > (R)least || length[j] != length[j]) continue;
        // The axis that is farthest from the columns before.
        R most = -1, farthest;
        u32 at = rows;
        for (u32 i = threadIdx.x; i < rows; i += blockDim.x) {
            R rest = 1;
            for (u32 k = 0; k < j; k++) rest -= la_square(a[i + (u64)k * rows]);
            if (rest > most) most = rest, at = i;
        }
        u32 axis = la_largest(shared, most, at, farthest);
        T* own = a + (u64)j * rows;
        for (u32 i = threadIdx.x; i < rows; i += blockDim.x) own[i] = LaFrom<T>::real(i == axis ? 1 : 0);
        __syncthreads();
        for (u32 round = 0; round < 2; round++) {
            for (u32 k = 0; k < j; k++) {
                const T* other = a + (u64)k * rows;
                T product = LaFrom<T>::real(0);
                for (u32 i = threadIdx.x; i < rows; i += blockDim.x) product = product + conj(other[i]) * own[i];
                product = la_block_sum(product, sums);
                for (u32 i = threadIdx.x; i < rows; i += blockDim.x) own[i] = own[i] - other[i] * product;
            }
        }
        T square = LaFrom<T>::real(0);
        for (u32 i = threadIdx.x; i < rows; i += blockDim.x) square = square + LaFrom<T>::real(la_square(own[i]));
        R norm = sqrt(la_real(la_block_sum(square, sums)));
        for (u32 i = threadIdx.x; i < rows; i += blockDim.x) own[i] = LaFrom<T>::over(own[i], norm);
        __syncthreads();
    }
}

}  // namespace ct
