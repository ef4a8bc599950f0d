// Orthogonal polynomials, by their recurrences; the degree is truncated, 0 below degree 0.

namespace ct {
namespace special {

/// Degrees above which a recurrence would take too long: there is no result.
const double MOST_STEPS = 1e7;
/// From here on the leading term decides, and from degree 4 on it is too large for a number.
const double HUGE_ARGUMENT = 1e100;
/// Degrees above which Chebyshev's polynomials take their closed forms beyond [-1, 1], too.
const double MOST_CHEBYSHEV = 1000;

CT_FN bool is_even(double n) { return ::fmod(n, 2) == 0; }
/// The number -1 to the power `n`.
CT_FN double parity(double n) { return is_even(n) ? 1 : -1; }

/// The recurrence, on numbers that are scaled down where they grow out of range: later ones may be smaller
/// again, and a difference of infinities is no number.
template <class Next> CT_FN double recurrence_steps(double n, double first, Next next) {
    // 2^500, so that nothing is rounded.
    const double large = __longlong_as_double((1023LL + 500) << 52);
    double p = 1, q = first;
    int scales = 0;
    for (double k = 1; k < n;) {
        double own = next(k, q, p);
        p = q, q = own;
        k += 1;
        if (::fabs(q) > large && k < n) {
            p /= large, q /= large;
            scales++;
        }
    }
    for (int k = 0; k < scales && k < 3; k++) q *= large;
    return q;
}

/// The polynomial of degree `n` whose values of degree 0 and 1 are 1 and `first`, which has the sign of the
/// leading term for large arguments; next(k, q, p) is degree k + 1 from k and k - 1.
template <class Next> CT_FN double recurrence(double n, double first, Next next) {
    if (n != n) return CT_NAN;
    // Also of what is no number, as in PyTorch.
    if (n < 1) return 1;
    if (first != first) return CT_NAN;
    if (n < 2) return first;
    if (::fabs(first) == CT_INFINITY || (n >= 4 && ::fabs(first) >= HUGE_ARGUMENT)) {
        return first < 0 ? parity(n) * CT_INFINITY : CT_INFINITY;
    }
    return n > MOST_STEPS ? CT_NAN : recurrence_steps(n, first, next);
}

CT_FN double chebyshev_t(double x, double n) {
    n = ::trunc(n);
    if (n < 0) return 0;
    if (::fabs(x) == 1) return x > 0 ? 1 : parity(n);
    if (n > 6 && ::fabs(x) < 1) return ::cos(n * ::acos(x));
    if (n > MOST_CHEBYSHEV) return (x < 0 ? parity(n) : 1) * ::cosh(n * ::acosh(::fabs(x)));
    return recurrence(n, x, [=](double, double q, double p) { return 2 * x * q - p; });
}

CT_FN double chebyshev_u(double x, double n) {
    n = ::trunc(n);
    if (n < 0) return 0;
    if (::fabs(x) == 1) return (x > 0 ? 1 : parity(n)) * (n + 1);
    if (n > 8 && ::fabs(x) < 1) {
        double angle = ::acos(x);
        return ::sin((n + 1) * angle) / ::sin(angle);
    }
    if (n > MOST_CHEBYSHEV) {
        double angle = ::acosh(::fabs(x));
        return (x < 0 ? parity(n) : 1) * (::sinh((n + 1) * angle) / ::sinh(angle));
    }
    return recurrence(n, 2 * x, [=](double, double q, double p) { return 2 * x * q - p; });
}

/// V of x > 1 and large degrees; W is that of the hyperbolic sines.
CT_FN double large_chebyshev_v(double x, double n) {
    double angle = ::acosh(x);
    return ::cosh((n + 0.5) * angle) / ::cosh(angle / 2);
}
CT_FN double large_chebyshev_w(double x, double n) {
    double angle = ::acosh(x);
    return ::sinh((n + 0.5) * angle) / ::sinh(angle / 2);
}

CT_FN double chebyshev_v(double x, double n) {
    n = ::trunc(n);
    if (n < 0) return 0;
    if (x == 1) return 1;
    if (x == -1) return parity(n) * (n + n + 1);
    if (n > 8 && ::fabs(x) < 1) {
        double angle = ::acos(x);
        return ::cos((n + 0.5) * angle) / ::cos(angle / 2);
    }
    if (n > MOST_CHEBYSHEV) return x < 0 ? parity(n) * large_chebyshev_w(-x, n) : large_chebyshev_v(x, n);
    return recurrence(n, 2 * x - 1, [=](double, double q, double p) { return 2 * x * q - p; });
}

CT_FN double chebyshev_w(double x, double n) {
    n = ::trunc(n);
    if (n < 0) return 0;
    if (x == 1) return n + n + 1;
    if (x == -1) return parity(n);
    if (n > 8 && ::fabs(x) < 1) {
        double angle = ::acos(x);
        return ::sin((n + 0.5) * angle) / ::sin(angle / 2);
    }
    if (n > MOST_CHEBYSHEV) return x < 0 ? parity(n) * large_chebyshev_v(-x, n) : large_chebyshev_w(x, n);
    return recurrence(n, 2 * x + 1, [=](double, double q, double p) { return 2 * x * q - p; });
}

CT_FN double shifted_chebyshev_t(double x, double n) { return chebyshev_t(2 * x - 1, n); }
CT_FN double shifted_chebyshev_u(double x, double n) { return chebyshev_u(2 * x - 1, n); }
CT_FN double shifted_chebyshev_v(double x, double n) { return chebyshev_v(2 * x - 1, n); }
CT_FN double shifted_chebyshev_w(double x, double n) { return chebyshev_w(2 * x - 1, n); }

/// The physicists' Hermite polynomial.
CT_FN double hermite_h(double x, double n) {
    n = ::trunc(n);
    if (n < 0) return 0;
    return recurrence(n, 2 * x, [=](double k, double q, double p) { return 2 * x * q - 2 * k * p; });
}

/// The probabilists' Hermite polynomial.
CT_FN double hermite_he(double x, double n) {
    n = ::trunc(n);
    if (n < 0) return 0;
    return recurrence(n, x, [=](double k, double q, double p) { return x * q - k * p; });
}

CT_FN double laguerre_l(double x, double n) {
    n = ::trunc(n);
    if (n < 0) return 0;
    if (x == 0) return 1;
    return recurrence(n, 1 - x, [=](double k, double q, double p) {
        return ((2 * k + 1 - x) * q - k * p) / (k + 1);
    });
}

CT_FN double legendre_p(double x, double n) {
    n = ::trunc(n);
    if (n < 0) return 0;
    if (::fabs(x) == 1) return x > 0 ? 1 : parity(n);
    return recurrence(n, x, [=](double k, double q, double p) {
        return ((2 * k + 1) * x * q - k * p) / (k + 1);
    });
}

}  // namespace special

CT_SPECIAL2(chebyshev_t)
CT_SPECIAL2(chebyshev_u)
CT_SPECIAL2(chebyshev_v)
CT_SPECIAL2(chebyshev_w)
CT_SPECIAL2(shifted_chebyshev_t)
CT_SPECIAL2(shifted_chebyshev_u)
CT_SPECIAL2(shifted_chebyshev_v)
CT_SPECIAL2(shifted_chebyshev_w)
CT_SPECIAL2(hermite_h)
CT_SPECIAL2(hermite_he)
CT_SPECIAL2(laguerre_l)
CT_SPECIAL2(legendre_p)

}  // namespace ct
