// Factors L D L^T or L D L^H of indefinite matrices (Bunch and Kaufman's pivots, LAPACK's sytrf and hetrf), and
// systems solved with them.

namespace ct {

template <class T, bool HERMITIAN> struct Ldl {
    typedef typename real_of<T>::type R;
    T* a;
    u32 n;

    CT_FN T& at(u32 i, u32 j) const { return a[i + (u64)j * n]; }
    CT_FN static T turned(T x) { return la_conj(x, HERMITIAN); }
    CT_FN void make_real(u32 k) const {
        if (HERMITIAN) at(k, k) = LaFrom<T>::real(la_real(at(k, k)));
    }
    CT_FN R diagonal_size(u32 k) const { return HERMITIAN ? la_size(LaFrom<T>::real(la_real(at(k, k)))) : la_size(at(k, k)); }
    CT_FN void swap(u32 i, u32 j, u32 k, u32 l) const {
        T held = at(i, j);
        at(i, j) = at(k, l);
        at(k, l) = held;
    }

    /// The width of the next block and the row that comes there; 0 for a column of zeros.
    CT_FN u32 choose(u32 k, u32& row, LaLargest<R>& shared) const {
        const R alpha = (R)0.64038820320220756872;
        R own = diagonal_size(k), size = 0, most;
        u32 place = n;
        for (u32 i = k + 1 + threadIdx.x; i < n; i += blockDim.x) {
            if (la_size(at(i, k)) > size) size = la_size(at(i, k)), place = i;
        }
        u32 largest = la_largest(shared, size, place, most);
        if (largest >= n) largest = k;
        row = k;
        if ((own == 0 && most == 0) || own != own) return 0;
        if (own >= alpha * most) return 1;
        R in_row = 0;
        for (u32 j = k + threadIdx.x; j < n; j += blockDim.x) {
            if (j != largest) in_row = fmax(in_row, la_size(j < largest ? at(largest, j) : at(j, largest)));
        }
        R size_of_row;
        la_largest(shared, in_row, 0u, size_of_row);
        if (own >= alpha * most * (most / size_of_row)) return 1;
        row = largest;
        return diagonal_size(largest) >= alpha * size_of_row ? 1 : 2;
    }

    CT_FN void exchange(u32 k, u32 width, u32 from) const {
        u32 to = k + width - 1;
        __syncthreads();
        if (to != from) {
            for (u32 i = from + 1 + threadIdx.x; i < n; i += blockDim.x) swap(i, to, i, from);
            for (u32 j = to + 1 + threadIdx.x; j < from; j += blockDim.x) {
                T column = turned(at(j, to)), across = turned(at(from, j));
                at(j, to) = across;
                at(from, j) = column;
            }
            if (threadIdx.x == 0) {
                at(from, to) = turned(at(from, to));
                swap(to, to, from, from);
                if (width == 2) swap(k + 1, k, from, k);
                make_real(from);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            make_real(k);
            make_real(to);
        }
        __syncthreads();
    }

    CT_FN void eliminate_one(u32 k) const {
        T pivot = at(k, k);
        u32 rest = n - k - 1;
        for (u64 t = threadIdx.x; t < (u64)rest * rest; t += blockDim.x) {
            u32 j = k + 1 + (u32)(t / rest), i = k + 1 + (u32)(t % rest);
            if (i >= j) at(i, j) = at(i, j) - at(i, k) * (turned(at(j, k)) / pivot);
            if (i == j) make_real(j);
        }
        __syncthreads();
        for (u32 i = k + 1 + threadIdx.x; i < n; i += blockDim.x) at(i, k) = at(i, k) / pivot;
        __syncthreads();
    }

    /// Everything is scaled by the element off the diagonal, the largest one.
    CT_FN void eliminate_two(u32 k) const {
        T below = at(k + 1, k), beside = turned(below);
        T first = at(k, k) / beside, second = at(k + 1, k + 1) / below;
        T determinant = first * second - LaFrom<T>::real(1);
        u32 rest = n - k - 2;
        for (u64 t = threadIdx.x; t < (u64)rest * rest; t += blockDim.x) {
            u32 j = k + 2 + (u32)(t / rest), i = k + 2 + (u32)(t % rest);
            if (i < j) continue;
            T x = at(j, k), y = at(j, k + 1);
            T left = (second * x - y) / determinant / beside, right = (first * y - x) / determinant / below;
            at(i, j) = at(i, j) - at(i, k) * turned(left) - at(i, k + 1) * turned(right);
            if (i == j) make_real(j);
        }
        __syncthreads();
        for (u32 j = k + 2 + threadIdx.x; j < n; j += blockDim.x) {
            T x = at(j, k), y = at(j, k + 1);
            at(j, k) = (second * x - y) / determinant / beside;
            at(j, k + 1) = (first * y - x) / determinant / below;
        }
        __syncthreads();
    }
};

template <class T, u32 HERMITIAN> __global__ void ldl_factor(T* data, u32 n, i32* pivots, i32* info) {
    typedef typename real_of<T>::type R;
    __shared__ LaLargest<R> shared;
    Ldl<T, HERMITIAN> own = {data + (u64)blockIdx.x * n * n, n};
    i32* rows = pivots + (u64)blockIdx.x * n;
    u32 k = 0;
    while (k < n) {
        u32 row, width = own.choose(k, row, shared);
        if (width == 0) {
            __syncthreads();
            if (threadIdx.x == 0) {
                if (info[blockIdx.x] == 0) info[blockIdx.x] = (i32)k + 1;
                own.make_real(k);
                rows[k] = (i32)k + 1;
            }
            __syncthreads();
            k++;
            continue;
        }
        own.exchange(k, width, row);
        if (width == 1) own.eliminate_one(k);
        else own.eliminate_two(k);
        if (threadIdx.x == 0) {
            rows[k] = width == 1 ? (i32)row + 1 : -((i32)row + 1);
            if (width == 2) rows[k + 1] = rows[k];
        }
        k += width;
    }
}

/// Solves for one right-hand side to a thread.
template <class T, u32 HERMITIAN>
__global__ void ldl_solve(const T* factors, LaView av, const i32* pivots, i64 pivot_stride, T* sides, LaView xv, u32 n,
                          u32 columns, u32* failure) {
    u32 column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    const T* a = factors + blockIdx.y * av.batch;
    const i32* rows = pivots + blockIdx.y * pivot_stride;
    T* x = sides + blockIdx.y * xv.batch + column * xv.column;
    u32 k = 0;
    while (k < n) {
        u32 width = rows[k] > 0 ? 1 : 2;
        i64 row = (i64)(rows[k] > 0 ? rows[k] : -(i64)rows[k]) - 1;
        if (row < 0 || row >= n || k + width > n) { *failure = 1; return; }
        u32 to = k + width - 1;
        T held = x[to];
        x[to] = x[row];
        x[row] = held;
        for (u32 j = k; j < k + width; j++) {
            for (u32 i = k + width; i < n; i++) x[i] = x[i] - a[i + j * av.column] * x[j];
        }
        T pivot = a[k + k * av.column];
        if (width == 1) {
            x[k] = x[k] / pivot;
        } else {
            T below = a[k + 1 + k * av.column], beside = la_conj(below, HERMITIAN);
            T first = pivot / beside, second = a[k + 1 + (k + 1) * av.column] / below;
            T determinant = first * second - LaFrom<T>::real(1);
            T left = x[k] / beside, right = x[k + 1] / below;
            x[k] = (second * left - right) / determinant;
            x[k + 1] = (first * right - left) / determinant;
        }
        k += width;
    }
    while (k > 0) {
        u32 width = rows[k - 1] > 0 ? 1 : 2;
        k -= width;
        for (u32 j = k; j < k + width; j++) {
            T value = x[j];
            for (u32 i = k + width; i < n; i++) value = value - la_conj(a[i + j * av.column], HERMITIAN) * x[i];
            x[j] = value;
        }
        i64 row = (i64)(rows[k] > 0 ? rows[k] : -(i64)rows[k]) - 1;
        T held = x[k + width - 1];
        x[k + width - 1] = x[row];
        x[row] = held;
    }
}

}  // namespace ct
