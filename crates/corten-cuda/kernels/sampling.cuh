// Numbers of distributions whose parameters are tensors, by rejection: a subsequence of Philox for each
// element, from which it draws as often as it must.

namespace ct {

/// The numbers of one subsequence, one after another.
struct Draws {
    u64 seed, subsequence, block;
    Quad quad;
    u32 used;
    CT_FN Draws(u64 seed, u64 subsequence, u64 offset) : seed(seed), subsequence(subsequence), block(offset / 4), used(4) {}
    /// Uniform over (0, 1], of 53 bits.
    CT_FN double uniform() {
        if (used == 4) {
            quad = philox(seed, subsequence, block++);
            used = 0;
        }
        u64 bits = (u64)quad.v[used] << 32 | quad.v[used + 1];
        used += 2;
        return ((double)(bits >> 11) + 1) * 1.1102230246251565e-16;
    }
    /// Box and Muller 1958.
    CT_FN double normal() {
        double u = uniform(), v = uniform();
        return ::sqrt(-2 * ::log(u)) * ::cos(6.283185307179586 * v);
    }
};

/// Small rates count uniform factors; others use transformed rejection with squeeze (W. Hörmann, "The
/// transformed rejection method for generating Poisson random variables", 1993, PTRS).
CT_FN double poisson_number(double rate, Draws& draws) {
    if (rate == 0) return 0;
    if (rate < 10) {
        double limit = ::exp(-rate), count = 0, product = 1;
        while (true) {
            product *= draws.uniform();
            if (product <= limit) return count;
            count += 1;
        }
    }
    double root = ::sqrt(rate), log_rate = ::log(rate);
    double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accepted = 0.9277 - 3.6224 / (b - 2);
    while (true) {
        double u = draws.uniform() - 0.5, v = draws.uniform(), us = 0.5 - ::fabs(u);
        double k = ::floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= accepted) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        double height = ::log(v) + ::log(inverse_alpha) - ::log(a / (us * us) + b);
        if (height <= -rate + k * log_rate - ::lgamma(k + 1)) return k;
    }
}

/// What Stirling's formula for log k! leaves out.
CT_FN double stirling_rest(double k) {
    double n = k + 1;
    if (k <= 9) return ::lgamma(n) - ((k + 0.5) * ::log(n) - n + 0.91893853320467274178);
    double square = n * n;
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / n;
}

/// Transformed rejection (W. Hörmann, "The generation of binomial random variates", 1993, BTRS).
CT_FN double binomial_by_rejection(double count, double prob, Draws& draws) {
    double deviation = ::sqrt(count * prob * (1 - prob)), b = 1.15 + 2.53 * deviation;
    double a = -0.0873 + 0.0248 * b + 0.01 * prob, c = count * prob + 0.5, accepted = 0.92 - 4.2 / b;
    double odds = prob / (1 - prob), alpha = (2.83 + 5.1 / b) * deviation, mode = ::floor((count + 1) * prob);
    while (true) {
        double u = draws.uniform() - 0.5, v = draws.uniform(), us = 0.5 - ::fabs(u);
        double k = ::floor((2 * a / us + b) * u + c);
        if (us >= 0.07 && v <= accepted) return k;
        if (k < 0 || k > count) continue;
        double height = ::log(v * alpha / (a / (us * us) + b));
        double bound = (mode + 0.5) * ::log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * ::log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * ::log(odds * (count - k + 1) / (k + 1))
            + stirling_rest(mode) + stirling_rest(count - mode) - stirling_rest(k) - stirling_rest(count - k);
        if (height <= bound) return k;
    }
}

/// Successes of a probability up to 1/2: few are counted by the geometric gaps between them.
CT_FN double rare_successes(double count, double prob, Draws& draws) {
    if (count * prob >= 10) return binomial_by_rejection(count, prob, draws);
    double log_failure = ::log1p(-prob), trials = 0, successes = 0;
    while (true) {
        trials += ::ceil(::log(draws.uniform()) / log_failure);
        if (!(trials <= count)) return successes;
        successes += 1;
    }
}

CT_FN double binomial_number(double count, double prob, Draws& draws) {
    if (count != count || prob != prob) return CT_NAN;
    if (count <= 0 || prob <= 0) return 0;
    if (prob >= 1) return count;
    return prob <= 0.5 ? rare_successes(count, prob, draws) : count - rare_successes(count, 1 - prob, draws);
}

/// G. Marsaglia and W. Tsang, "A simple method for generating gamma variables", 2000.
CT_FN double gamma_number(double concentration, Draws& draws) {
    if (concentration == 0) return 0;
    double scale = 1, d = concentration - 1.0 / 3;
    if (concentration < 1) {
        scale = ::pow(draws.uniform(), 1 / concentration);
        d += 1;
    }
    if (!(d > 0 && d < CT_INFINITY)) return d;
    double c = 1 / ::sqrt(9 * d);
    while (true) {
        double x = draws.normal(), y = 1 + c * x;
        if (y <= 0) continue;
        double v = y * y * y, u = draws.uniform(), square = x * x;
        bool squeezed = u < 1 - 0.0331 * square * square;
        if (squeezed || ::log(u) < 0.5 * square + d * (1 - v + ::log(v))) return scale * d * v;
    }
}

enum Sampled { POISSON, BINOMIAL, GAMMA };

/// A number of the distribution that the parameters at its place name; `least` is the smallest gamma number.
template <class S, u32 KIND>
__global__ void sample_each(
    u64 n, S* out, const S* first, const S* second, u64 seed, u64 offset, double least, u32* failure
) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Draws draws(seed, i, offset);
    double a = widen(first[i]), number;
    if constexpr (KIND == POISSON) {
        if (!(a >= 0 && a < CT_INFINITY)) { *failure = 3; return; }
        number = poisson_number(a, draws);
    } else if constexpr (KIND == BINOMIAL) {
        number = binomial_number(a, widen(second[i]), draws);
    } else {
        number = gamma_number(a, draws);
        number = number < least ? least : number;
    }
    out[i] = narrow<S>(number);
}

}  // namespace ct
