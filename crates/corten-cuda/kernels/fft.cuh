// Fourier transforms along one dimension: Stockham's algorithm in shared memory, several lines to a block.
//
// A line longer than shared memory is transformed in passes over the digits of its index (the four-step
// algorithm): each pass transforms one digit, multiplies with twiddle factors, and the last one writes the
// digits in reversed order. Lengths with large prime factors are convolutions (Bluestein's algorithm).

namespace ct {

/// The lines of a pass and where their elements are.
struct FftLines {
    /// Numbers of lines by coordinate, the slowest first.
    u64 sizes[5];
    /// The distance of neighbours along each coordinate.
    u64 from[5], to[5];
    /// The distance of the elements of a line.
    u64 step_from, step_to;
    u64 lines;
    /// Elements of a line, and lines of a block.
    u32 len, group;
    /// Whether neighbouring threads read, and write, neighbouring lines.
    u32 lines_first_from, lines_first_to;
    /// The radix of each stage, the product of which is `len`.
    u32 stages, radix[12];
    /// The coordinate whose number times the output's is the twiddle's exponent, 5 for none, and what
    /// divides it to give the number.
    u32 twiddle_coordinate;
    u64 twiddle_divisor;
    /// Twiddles of the whole line: the distance of those of this pass, and how many the first table has.
    u64 twiddle_step, low;
    /// Outputs from this index within the line on are not written.
    u64 kept;
    /// The length of the real line of which a spectrum's first half is read.
    u64 symmetric;
};

/// Tables of exp(direction * 2 pi i j step / period), one after the other.
struct FftTables {
    u64 start[9];
    u64 step[8], period[8];
    u32 count;
    i32 direction;
};

template <class V> CT_FN Complex<V> unit_root(u64 index, u64 period, i32 direction) {
    double s, c;
    sincospi(2. * (double)index / (double)period, &s, &c);
    return Complex<V>((V)c, (V)(direction * s));
}

template <class V> __global__ void fft_tables(Complex<V>* out, FftTables tables) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tables.start[tables.count]) return;
    u32 own = 0;
    while (i >= tables.start[own + 1]) own++;
    u64 period = tables.period[own];
    out[i] = unit_root<V>((i - tables.start[own]) * tables.step[own] % period, period, tables.direction);
}

/// An element as a complex number.
template <class V> CT_FN Complex<V> fft_wide(float x) { return Complex<V>((V)x, 0); }
template <class V> CT_FN Complex<V> fft_wide(double x) { return Complex<V>((V)x, 0); }
template <class V, class U> CT_FN Complex<V> fft_wide(Complex<U> x) { return Complex<V>((V)x.re, (V)x.im); }

/// Element `n` of a line of a spectrum of which the first half is there.
template <class V, class In> CT_FN Complex<V> fft_mirrored(const In* line, u64 n, u64 length) {
    bool mirrored = n > length / 2;
    Complex<V> x = fft_wide<V>(widen(line[mirrored ? length - n : n]));
    if (n == 0 || 2 * n == length) x.im = 0;
    if (mirrored) x.im = -x.im;
    return x;
}

template <class V> CT_FN Complex<V> turned(Complex<V> x, V direction) {
    return Complex<V>(-direction * x.im, direction * x.re);
}

template <class V> CT_FN void dft2(Complex<V>& a, Complex<V>& b) {
    Complex<V> difference = a - b;
    a = a + b;
    b = difference;
}

/// Transforms of 2, 3, 4, 5 and 8 numbers in place; `direction` is the sign of the exponent.
template <class V> CT_FN void dft(Complex<V> (&x)[2], V) { dft2(x[0], x[1]); }
template <class V> CT_FN void dft(Complex<V> (&x)[3], V direction) {
    const V sine = (V)0.86602540378443864676;
    Complex<V> sum = x[1] + x[2], difference = turned(x[1] - x[2], direction * sine);
    Complex<V> middle(x[0].re - (V)0.5 * sum.re, x[0].im - (V)0.5 * sum.im);
    x[0] = x[0] + sum;
    x[1] = middle + difference;
    x[2] = middle - difference;
}
template <class V> CT_FN void dft(Complex<V> (&x)[4], V direction) {
    dft2(x[0], x[2]);
    dft2(x[1], x[3]);
    x[3] = turned(x[3], direction);
    dft2(x[0], x[1]);
    dft2(x[2], x[3]);
    Complex<V> second = x[2];
    x[2] = x[1];
    x[1] = second;
}
template <class V> CT_FN void dft(Complex<V> (&x)[5], V direction) {
    const V c1 = (V)0.30901699437494742410, c2 = (V)-0.80901699437494742410;
    const V s1 = direction * (V)0.95105651629515357212, s2 = direction * (V)0.58778525229247312917;
    Complex<V> a = x[1] + x[4], b = x[2] + x[3], c = x[1] - x[4], d = x[2] - x[3];
    Complex<V> p(x[0].re + c1 * a.re + c2 * b.re, x[0].im + c1 * a.im + c2 * b.im);
    Complex<V> q(x[0].re + c2 * a.re + c1 * b.re, x[0].im + c2 * a.im + c1 * b.im);
    Complex<V> r = turned(Complex<V>(s1 * c.re + s2 * d.re, s1 * c.im + s2 * d.im), (V)1);
    Complex<V> s = turned(Complex<V>(s2 * c.re - s1 * d.re, s2 * c.im - s1 * d.im), (V)1);
    x[0] = x[0] + a + b;
    x[1] = p + r;
    x[4] = p - r;
    x[2] = q + s;
    x[3] = q - s;
}
template <class V> CT_FN void dft(Complex<V> (&x)[8], V direction) {
    const V root = (V)0.70710678118654752440;
    Complex<V> even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
    dft(even, direction);
    dft(odd, direction);
    Complex<V> first = odd[1], third = odd[3];
    odd[1] = Complex<V>(root * (first.re - direction * first.im), root * (first.im + direction * first.re));
    odd[2] = turned(odd[2], direction);
    odd[3] = Complex<V>(root * (-third.re - direction * third.im), root * (direction * third.re - third.im));
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i] = even[i] + odd[i];
        x[i + 4] = even[i] - odd[i];
    }
}

/// A stage of radix R over all lines of a block; `done` is the product of the radices before.
template <int R, class V>
CT_FN void fft_stage(const Complex<V>* in, Complex<V>* out, const Complex<V>* roots, u32 len, u32 pitch, u32 lines,
                     u32 done, V direction) {
    u32 each = len / R, step = each / done;
    for (u32 t = threadIdx.x; t < each * lines; t += blockDim.x) {
        u32 line = t / each, i = t - line * each, inner = i % done;
        const Complex<V>* source = in + line * pitch + i;
        Complex<V> x[R];
        #pragma unroll
        for (int r = 0; r < R; r++) x[r] = source[r * each];
        if (inner > 0) {
            #pragma unroll
            for (int r = 1; r < R; r++) x[r] = x[r] * roots[r * inner * step];
        }
        dft(x, direction);
        Complex<V>* target = out + line * pitch + (i - inner) * R + inner;
        #pragma unroll
        for (int r = 0; r < R; r++) target[r * done] = x[r];
    }
}

/// A stage of any radix: a sum for each output.
template <class V>
CT_FN void fft_stage_any(const Complex<V>* in, Complex<V>* out, const Complex<V>* roots, u32 len, u32 pitch,
                         u32 lines, u32 done, u32 radix) {
    u32 each = len / radix, step = each / done;
    for (u32 t = threadIdx.x; t < len * lines; t += blockDim.x) {
        u32 line = t / len, rest = t - line * len, output = rest / each, i = rest - output * each, inner = i % done;
        const Complex<V>* source = in + line * pitch + i;
        u32 turn = inner * step + output * each, root = 0;
        Complex<V> sum = source[0];
        for (u32 r = 1; r < radix; r++) {
            root += turn;
            if (root >= len) root -= len;
            sum = sum + source[r * each] * roots[root];
        }
        out[line * pitch + (i - inner) * radix + inner + output * done] = sum;
    }
}

/// Where a line begins: along the slowest coordinate, along the others, and the number of its twiddles.
struct FftBegin {
    u64 base, local, number;
};

/// The most lines of a block.
#define FFT_MOST_LINES 64

CT_FN FftBegin fft_begin(const FftLines& s, u64 line, const u64 (&strides)[5]) {
    FftBegin begin = {0, 0, 0};
    #pragma unroll
    for (int i = 4; i > 0; i--) {
        u64 rest = line / s.sizes[i], at = line - rest * s.sizes[i];
        if (s.twiddle_coordinate == (u32)i) begin.number = at / s.twiddle_divisor;
        begin.local += at * strides[i];
        line = rest;
    }
    begin.base = line * strides[0];
    return begin;
}

template <class V, class Out> CT_FN void fft_store(Out* at, Complex<V> x) {
    typename Value<Out>::type value = to<typename Value<Out>::type>(x);
    *at = narrow<Out>(value);
}

/// Transforms the lines of `s`. `tables`: the roots of this length, and those of the whole line in two.
template <class Out, class In, class V, u32 MIRRORED>
__global__ void fft_pass(Out* out, const In* in, const Complex<V>* roots, const Complex<V>* twiddles, FftLines s,
                         i32 direction, double scale) {
    CT_DYN_SMEM(Complex<V>, shared);
    u32 pitch = s.len + 1;
    Complex<V>*now = shared, *next = shared + (u64)pitch * s.group;
    u64 first = (u64)blockIdx.x * s.group;
    u32 lines = s.lines - first < s.group ? (u32)(s.lines - first) : s.group;
    __shared__ FftBegin sources[FFT_MOST_LINES], targets[FFT_MOST_LINES];
    for (u32 line = threadIdx.x; line < lines; line += blockDim.x) {
        sources[line] = fft_begin(s, first + line, s.from);
        targets[line] = fft_begin(s, first + line, s.to);
    }
    __syncthreads();
    for (u32 t = threadIdx.x; t < lines * s.len; t += blockDim.x) {
        u32 line = s.lines_first_from ? t % lines : t / s.len, j = s.lines_first_from ? t / lines : t % s.len;
        FftBegin begin = sources[line];
        u64 at = begin.local + j * s.step_from;
        const In* source = in + begin.base;
        now[line * pitch + j] = MIRRORED ? fft_mirrored<V>(source, at, s.symmetric) : fft_wide<V>(widen(source[at]));
    }
    __syncthreads();
    u32 done = 1;
    for (u32 stage = 0; stage < s.stages; stage++) {
        u32 radix = s.radix[stage];
        switch (radix) {
            case 2: fft_stage<2>(now, next, roots, s.len, pitch, lines, done, (V)direction); break;
            case 3: fft_stage<3>(now, next, roots, s.len, pitch, lines, done, (V)direction); break;
            case 4: fft_stage<4>(now, next, roots, s.len, pitch, lines, done, (V)direction); break;
            case 5: fft_stage<5>(now, next, roots, s.len, pitch, lines, done, (V)direction); break;
            case 8: fft_stage<8>(now, next, roots, s.len, pitch, lines, done, (V)direction); break;
            default: fft_stage_any(now, next, roots, s.len, pitch, lines, done, radix);
        }
        __syncthreads();
        Complex<V>* other = now;
        now = next;
        next = other;
        done *= radix;
    }
    for (u32 t = threadIdx.x; t < lines * s.len; t += blockDim.x) {
        u32 line = s.lines_first_to ? t % lines : t / s.len, k = s.lines_first_to ? t / lines : t % s.len;
        FftBegin begin = targets[line];
        Complex<V> x = now[line * pitch + k];
        u64 at = begin.local + k * s.step_to;
        if (at >= s.kept) continue;
        if (s.twiddle_coordinate < 5) {
            u64 exponent = begin.number * k * s.twiddle_step;
            x = x * (twiddles[exponent % s.low] * twiddles[s.low + exponent / s.low]);
        }
        fft_store(out + begin.base + at, Complex<V>(x.re * (V)scale, x.im * (V)scale));
    }
}

/// exp(direction * pi i n^2 / length).
template <class V> __global__ void fft_chirp(Complex<V>* out, u64 length, i32 direction) {
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n < length) out[n] = unit_root<V>(n * n % (2 * length), 2 * length, direction);
}

/// The lines of [outer, length, inner] times the chirp, each padded with zeros to `padded`; the last line of
/// `out` is the conjugated chirp, with which they are convolved.
template <class In, class V, u32 MIRRORED>
__global__ void fft_chirp_in(Complex<V>* out, const In* in, const Complex<V>* chirp, u64 lines, u64 length, u64 inner,
                             u64 row, u64 padded) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, line = i / padded, n = i - line * padded;
    if (line > lines) return;
    Complex<V> x((V)0, (V)0);
    if (line == lines) {
        u64 distance = n < padded - n ? n : padded - n;
        if (distance < length) x = Complex<V>(chirp[distance].re, -chirp[distance].im);
    } else if (n < length) {
        const In* base = in + line / inner * row * inner + line % inner;
        x = (MIRRORED ? fft_mirrored<V>(base, n, length) : fft_wide<V>(widen(base[n * inner]))) * chirp[n];
    }
    out[i] = x;
}

/// Every line times the last one.
template <class V> __global__ void fft_chirp_product(Complex<V>* data, u64 lines, u64 padded) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < lines * padded) data[i] = data[i] * data[lines * padded + i % padded];
}

/// The first `kept` numbers of the convolved lines times the chirp.
template <class Out, class V>
__global__ void fft_chirp_out(Out* out, const Complex<V>* in, const Complex<V>* chirp, u64 lines, u64 kept, u64 inner,
                              u64 padded, double scale) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, outer = i / (kept * inner), rest = i - outer * kept * inner;
    u64 k = rest / inner, line = outer * inner + rest % inner;
    if (line >= lines) return;
    Complex<V> x = in[line * padded + k] * chirp[k];
    fft_store(out + i, Complex<V>(x.re * (V)scale, x.im * (V)scale));
}

}  // namespace ct
