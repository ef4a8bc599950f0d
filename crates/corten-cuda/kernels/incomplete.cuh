// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x): power series and continued
// fraction; around x = a, of large a, Temme's uniform expansion (DLMF 8.12).

namespace ct {
namespace special {

/// y - ln(1 + y) of y from -1/2 to 1: with s = y / (2 + y) it is s (y - 2 s² (1/3 + s²/5 + …)).
CT_FN double less_log1p(double y) {
    double s = y / (2 + y), z = s * s, sum = 0;
    for (int k = 16; k >= 0; k--) sum = sum * z + 1.0 / (2 * k + 3);
    return s * (y - 2 * z * sum);
}

/// ln Γ(1 + a), with the digits of small a.
CT_FN double lgamma_plus_one(double a) {
    if (a > 0.1) return ::lgamma(1 + a);
    double sum = 0;
    for (int k = 15; k >= 0; k--) sum = sum * a + LGAMMA_PLUS_ONE[k];
    return a * sum;
}

/// Whether Temme's expansion has all digits.
CT_FN bool is_central(double a, double x) { return a > 20 && ::fabs(x - a) < 0.3 * a; }

/// Q with `side` 1, P with -1: erfc(±η √(a/2)) / 2 ± R, where η²/2 = λ - 1 - ln λ and λ = x / a.
CT_FN double central(double a, double x, double side) {
    double distance = (x - a) / a, half_square = less_log1p(distance);
    double eta = ::copysign(::sqrt(2 * half_square), distance), sum = 0, scale = 1;
    for (int row = 0; row < 10; row++) {
        double term = 0;
        for (int k = 15; k >= 0; k--) term = term * eta + TEMME[row][k];
        term *= scale;
        sum += term;
        scale /= a;
        if (::fabs(term) < EPSILON / 8 * sum) break;
    }
    double decay = ::exp(-a * half_square), rest = decay / ::sqrt(2 * PI * a) * sum;
    double t = side * ::copysign(::sqrt(a * half_square), distance);
    // Far out erfc has the factor that the rest has.
    double main = t > 1 ? decay * ::erfcx(t) : ::erfc(t);
    return 0.5 * main + side * rest;
}

/// x^a e^-x / Γ(a + 1), without the cancellation of large logarithms.
CT_FN double gamma_prefix(double a, double x) {
    // Factors have their last digits, sums of large exponents do not.
    double power = ::pow(x, a);
    if (a < 170 && power > 1e-290 && power < 1e290 && x < 600) return power * ::exp(-x) / ::tgamma(a + 1);
    if (a < 20) return ::exp(a * ::log(x) - x - lgamma_plus_one(a));
    // Γ(a + 1) = √(2πa) (a/e)^a e^r with Stirling's remainder r.
    double square = a * a;
    double r = (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - 1 / (1680 * square)) / square) / square) / a;
    double difference = (x - a) / a;
    bool near = difference > -0.5 && difference < 1;
    double exponent = near ? -a * less_log1p(difference) : a * (::log(x / a) - difference);
    return ::exp(exponent - r) / ::sqrt(2 * PI * a);
}

/// Steps after which a series or fraction is given up; none takes so many.
const int STEPS = 200000;

CT_FN double lower_series(double a, double x, double least) {
    double term = 1, sum = 1, n = a;
    for (int k = 0; k < STEPS; k++) {
        n += 1;
        term *= x / n;
        sum += term;
        if (term <= sum * (least / 4)) break;
    }
    return sum * gamma_prefix(a, x);
}

/// Lentz' evaluation of the continued fraction.
CT_FN double upper_fraction(double a, double x, double least) {
    const double tiny = 1e-300;
    double prefix = gamma_prefix(a, x);
    if (prefix == 0) return 0;
    double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
    for (int i = 1; i < STEPS; i++) {
        double numerator = -(double)i * (i - a);
        b += 2;
        d = numerator * d + b;
        c = b + numerator / c;
        d = 1 / (::fabs(d) < tiny ? tiny : d);
        c = ::fabs(c) < tiny ? tiny : c;
        double step = d * c;
        h *= step;
        if (::fabs(step - 1) < least) break;
    }
    return a * prefix * h;
}

/// Q of a below 1, where 1 - P would lose digits.
CT_FN double upper_of_small(double a, double x, double least) {
    if (x > 1.5) return upper_fraction(a, x, least);
    // Q = 1 - x^a/Γ(1+a) - x^a/Γ(1+a) · a Σ (-x)^k / (k! (a+k)).
    double power = 1, sum = 0;
    for (int k = 1; k < 60; k++) {
        power *= -x / k;
        double term = power / (a + k);
        sum += term;
        if (::fabs(term) <= ::fabs(sum) * (least / 4)) break;
    }
    double less = ::expm1(a * ::log(x) - lgamma_plus_one(a));
    return -less - (less + 1) * a * sum;
}

/// P where an argument is zero, infinite or out of range.
CT_FN bool at_the_border(double a, double x, double* lower) {
    if (a != a || x != x || a < 0 || x < 0 || (a == 0 && x == 0)) *lower = CT_NAN;
    else if (a == 0) *lower = 1;
    else if (x == 0) *lower = 0;
    else if (a == CT_INFINITY) *lower = x == CT_INFINITY ? CT_NAN : 0;
    else if (x == CT_INFINITY) *lower = 1;
    else return false;
    return true;
}

CT_FN double igamma(double a, double x, double least) {
    double lower;
    if (at_the_border(a, x, &lower)) return lower;
    if (is_central(a, x)) return central(a, x, -1);
    if (a < 1 && x > a) return 1 - upper_of_small(a, x, least);
    return x > a + 1 ? 1 - upper_fraction(a, x, least) : lower_series(a, x, least);
}

CT_FN double igammac(double a, double x, double least) {
    double lower;
    if (at_the_border(a, x, &lower)) return 1 - lower;
    if (is_central(a, x)) return central(a, x, 1);
    if (a < 1) return upper_of_small(a, x, least);
    return x > a + 1 ? upper_fraction(a, x, least) : 1 - lower_series(a, x, least);
}

}  // namespace special

static __device__ __noinline__ double called_igamma(double a, double x, double least) {
    return special::igamma(a, x, least);
}
static __device__ __noinline__ double called_igammac(double a, double x, double least) {
    return special::igammac(a, x, least);
}
// What becomes a float needs ten digits.
CT_FN float igamma(float a, float x) { return (float)called_igamma((double)a, (double)x, 1e-10); }
CT_FN double igamma(double a, double x) { return called_igamma(a, x, special::EPSILON); }
CT_FN float igammac(float a, float x) { return (float)called_igammac((double)a, (double)x, 1e-10); }
CT_FN double igammac(double a, double x) { return called_igammac(a, x, special::EPSILON); }

}  // namespace ct
