// Elements that follow from their position.

namespace ct {

enum Counted { ARANGE, LINSPACE, LOGSPACE };

/// Numbers of the call: start, end, step and base.
template <class S, class C, u32 KIND>
__global__ void by_position(i64 n, char* out, i64 stride, Numbers numbers) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Values<C> s(numbers);
    C value;
    if (KIND == ARANGE || n == 1 || i < n / 2) value = mul_add(s.at[2], to<C>(Int<i64>(i)), s.at[0]);
    else value = mul_add(-s.at[2], to<C>(Int<i64>(n - 1 - i)), s.at[1]);
    if constexpr (KIND == LOGSPACE) value = pow(s.at[3], value);
    *reinterpret_cast<S*>(out + i * stride) = narrow<S>(value);
}

/// Matrices with zeros above or below a diagonal.
template <class W, u32 LOWER>
__global__ void triangle(u64 n, W* out, const W* in, u64 rows, u64 columns, i64 diagonal) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 line = i / columns;
    i64 beyond = (i64)(i - line * columns) - (i64)(line % rows);
    bool kept = LOWER ? beyond <= diagonal : beyond >= diagonal;
    out[i] = kept ? in[i] : W{};
}

}  // namespace ct
