// Gathering and scattering by indices. An index out of bounds is reported in `failure` and not followed.

namespace ct {

/// What is made of an element and the value that is scattered to it.
enum Combine { ASSIGN, ADD, MULTIPLY, LARGER, SMALLER };

template <u32 HOW, class V> CT_FN V combined(V old, V value) {
    if constexpr (HOW == ADD) return old + value;
    else if constexpr (HOW == MULTIPLY) return old * value;
    else if constexpr (HOW == LARGER) return max(old, value);
    else if constexpr (HOW == SMALLER) return min(old, value);
    else return value;
}

template <int SIZE> struct Word { typedef u32 type; };
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<8> { typedef u64 type; };
CT_FN u32 compare_and_swap(u32* at, u32 old, u32 value) { return atomicCAS(at, old, value); }
CT_FN u64 compare_and_swap(u64* at, u64 old, u64 value) { return atomicCAS(at, old, value); }

template <class A, class B> CT_FN A bits_as(B x) {
    static_assert(sizeof(A) == sizeof(B), "of one size");
    union { B from; A to; } both;
    both.from = x;
    return both.to;
}

/// One element, atomically. Elements of less than 4 bytes lie in a word that is exchanged as a whole.
template <u32 HOW, class S, class V> CT_FN void combine_atomically(S* at, V value) {
    if constexpr (HOW == ASSIGN) {
        *at = narrow<S>(value);
    } else if constexpr (sizeof(S) == 4 || sizeof(S) == 8) {
        typedef typename Word<sizeof(S)>::type W;
        W* word = reinterpret_cast<W*>(at);
        W seen = *reinterpret_cast<volatile W*>(word), before;
        do {
            before = seen;
            S next = narrow<S>(combined<HOW>(to<V>(widen(bits_as<S>(before))), value));
            seen = compare_and_swap(word, before, bits_as<W>(next));
        } while (seen != before);
    } else if constexpr (sizeof(S) < 4) {
        u64 address = reinterpret_cast<u64>(at);
        u32* word = reinterpret_cast<u32*>(address & ~(u64)3);
        u32 shift = (u32)(address & 3) * 8, mask = (sizeof(S) == 1 ? 0xffu : 0xffffu) << shift;
        typedef typename choose<sizeof(S) == 1, u8, u16>::type W;
        u32 seen = *reinterpret_cast<volatile u32*>(word), before;
        do {
            before = seen;
            S old = bits_as<S>((W)((before & mask) >> shift));
            S next = narrow<S>(combined<HOW>(to<V>(widen(old)), value));
            seen = compare_and_swap(word, before, (before & ~mask) | (u32)bits_as<W>(next) << shift);
        } while (seen != before);
    } else {
        // Complex numbers of 16 bytes: sums part by part.
        double* parts = reinterpret_cast<double*>(at);
        combine_atomically<ADD, double, double>(parts, value.re);
        combine_atomically<ADD, double, double>(parts + 1, value.im);
    }
}

/// out = self[..., index, ...]: operands are out, self and index; `step` is the distance of neighbours
/// along the dimension.
template <class S, class I>
__global__ void gather(u32 n, Pointers<3> at, Geometry<3> walk, i64 size, i64 step, u32* failure) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 offset[3];
    offsets(walk, i, offset);
    i64 index = *reinterpret_cast<const I*>(at.at[2] + offset[2]);
    if (index < 0) index += size;
    if (index < 0 || index >= size) { *failure = 1; return; }
    *reinterpret_cast<S*>(at.at[0] + offset[0]) =
        *reinterpret_cast<const S*>(at.at[1] + offset[1] + index * step);
}

/// self[..., index, ...] = source, or combined with it: operands are self, source and index. Positions
/// whose index is `skipped` are left out. The source is multiplied by the first number.
template <class S, class I, class V, u32 HOW>
__global__ void scatter(
    u32 n, Pointers<3> at, Geometry<3> walk, i64 size, i64 step, i64 skipped, u32* failure, Numbers numbers
) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 offset[3];
    offsets(walk, i, offset);
    i64 index = *reinterpret_cast<const I*>(at.at[2] + offset[2]);
    if (index == skipped) return;
    if (index < 0) index += size;
    if (index < 0 || index >= size) { *failure = 1; return; }
    S* target = reinterpret_cast<S*>(at.at[0] + offset[0] + index * step);
    S value = *reinterpret_cast<const S*>(at.at[1] + offset[1]);
    if constexpr (HOW == ASSIGN) {
        *target = value;
    } else {
        Values<V> factor(numbers);
        combine_atomically<HOW>(target, to<V>(widen(value)) * factor.at[0]);
    }
}

const int MAX_INDICES = 8;

/// The dimensions that indices stand for: their sizes and distances.
struct Indexed {
    u32 count;
    i64 size[MAX_INDICES], step[MAX_INDICES];
};

template <class I> CT_FN bool indexed_offset(
    const Indexed& indexed, const Pointers<10>& at, const i64 (&offset)[10], i64& result, u32* failure
) {
    for (u32 k = 0; k < indexed.count; k++) {
        i64 index = *reinterpret_cast<const I*>(at.at[2 + k] + offset[2 + k]), size = indexed.size[k];
        if (index < 0) index += size;
        if (index < 0 || index >= size) { *failure = 1; return false; }
        result += index * indexed.step[k];
    }
    return true;
}

/// out = self[indices]: operands are out, self and up to 8 indices.
template <class S, class I>
__global__ void index(u32 n, Pointers<10> at, Geometry<10> walk, Indexed indexed, u32* failure) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 offset[10];
    offsets(walk, i, offset);
    i64 from = offset[1];
    if (!indexed_offset<I>(indexed, at, offset, from, failure)) return;
    *reinterpret_cast<S*>(at.at[0] + offset[0]) = *reinterpret_cast<const S*>(at.at[1] + from);
}

/// self[indices] = values, or += values: operands are values, self and up to 8 indices.
template <class S, class I, class V, u32 HOW>
__global__ void index_put(u32 n, Pointers<10> at, Geometry<10> walk, Indexed indexed, u32* failure) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 offset[10];
    offsets(walk, i, offset);
    i64 to_offset = offset[1];
    if (!indexed_offset<I>(indexed, at, offset, to_offset, failure)) return;
    S value = *reinterpret_cast<const S*>(at.at[0] + offset[0]);
    S* target = reinterpret_cast<S*>(at.at[1] + to_offset);
    if constexpr (HOW == ASSIGN) *target = value;
    else combine_atomically<HOW>(target, to<V>(widen(value)));
}

}  // namespace ct
