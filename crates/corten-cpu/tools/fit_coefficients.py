"""Fits the polynomials of src/vec/coefficients.rs (needs mpmath). Prints the file.

Each table approximates g on [a, b] in the variable of `Real::poly`, by least squares on Chebyshev
nodes with the given weight (so nearly minimax). Coefficients are rounded one after the other to the
element's precision, the rest being fitted again each time.
"""
from mpmath import mp, mpf, matrix, lu_solve, cos, pi, exp, log, sqrt, sin, atan, asin, erf, erfc

mp.dps = 60


def rounded(c, bits):
    if c == 0:
        return mpf(0)
    e = int(mp.floor(mp.log(abs(c), 2))) + 1 - bits
    return mp.nint(mp.ldexp(c, -e)) * mp.mpf(2) ** e


def rounded_fit(rest, n, bits):
    """n coefficients for the rows (x, y, weight), rounded one after the other."""
    done = []
    for i in range(n):
        m = n - i
        ata, atb = matrix(m, m), matrix(m, 1)
        for x, y, w in rest:
            # What is left of g after the coefficients already rounded.
            y -= sum(c * x**k for k, c in enumerate(done))
            row = [w * x ** (i + k) for k in range(m)]
            for r in range(m):
                atb[r] += row[r] * y * w
                for c in range(m):
                    ata[r, c] += row[r] * row[c]
        done.append(rounded(lu_solve(ata, atb)[0], bits))
    return done


def fit(g, a, b, n, weight, bits):
    nodes = [(a + b) / 2 + (b - a) / 2 * cos(pi * (2 * k + 1) / (2 * 6 * n)) for k in range(6 * n)]
    rest = [(x, g(x), weight(x)) for x in nodes]
    done = rounded_fit(rest, n, bits)
    worst = max(abs(w * (sum(c * x**k for k, c in enumerate(done)) - y)) for x, y, w in rest)
    return done, worst


def series(f):
    """f without its removable singularity: a Cauchy integral over a small circle near it."""
    def g(z):
        if abs(z) > mpf(10) ** -6:
            return f(z)
        n, r = 32, mpf(1) / 64
        return sum(f(z + r * mp.expjpi(mpf(2) * k / n)) for k in range(n)).real / n
    return g


def fit_ratio(g, b, n, m, bits, share):
    """P / Q with n and m coefficients, relative to g / share on [0, b]: Q linearised, its last values as weights."""
    nodes = [b * ((1 + cos(pi * (k + mpf(1) / 2) / 160)) / 2) ** 2 for k in range(160)]
    values, below, weights = [g(x) for x in nodes], [mpf(1)] * 160, [share(x) for x in nodes]
    best = (mpf(1), None, None)
    for _ in range(16):
        scales = [w / (y * q) for w, y, q in zip(weights, values, below)]
        rows = matrix([[s * x**i for i in range(n)] + [-s * y * x**i for i in range(1, m)]
                       for x, y, s in zip(nodes, values, scales)])
        right = matrix([s * y for s, y in zip(scales, values)])
        c = list(lu_solve(rows.T * rows, rows.T * right))
        q = [mpf(1)] + c[n:]
        below = [mp.polyval(q[::-1], x) for x in nodes]
        errors = [abs(mp.polyval(c[:n][::-1], x) / z / y - 1) * share(x) for x, z, y in zip(nodes, below, values)]
        # More weight where the error is large, which makes the largest smaller (Lawson 1961).
        best = min(best, (max(errors), q, weights))
        weights = [w * sqrt(e / max(errors) + mpf("0.05")) for w, e in zip(weights, errors)]
    _, q, weights = best
    q = [rounded(x, bits) for x in q]
    # The numerator makes up for the rounding of the denominator.
    wanted = [y * mp.polyval(q[::-1], x) for x, y in zip(nodes, values)]
    p = rounded_fit([(x, y, w / y) for x, y, w in zip(nodes, wanted, weights)], n, bits)
    return p, q, max(abs(mp.polyval(p[::-1], x) / y - 1) * share(x) for x, y in zip(nodes, wanted))


def emit_ratio(name, doc, g, b, n, m, bits=24, share=lambda x: mpf(1)):
    p, q, worst = fit_ratio(g, mpf(b), n, m, bits, share)
    print(f"\n/// {doc[:-1]}, above and below the fraction line. Error {mp.nstr(worst, 2)}.")
    for half, row in (("ABOVE", p), ("BELOW", q)):
        print(f"pub(super) const {name}_{half}: [f64; {len(row)}] = [")
        for x in row:
            print(f"    {float(x)!r},")
        print("];")
        if half == "ABOVE":
            print("\n/// The other half of the same.")


def emit(name, doc, g, a, b, n, weight, bits):
    c, worst = fit(series(g), mpf(a), mpf(b), n, weight, bits)
    print(f"\n/// {doc} Error {mp.nstr(worst, 2)}.")
    print(f"pub(super) const {name}: [f64; {n}] = [")
    for x in c:
        print(f"    {float(x)!r},")
    print("];")


def both(name, doc, g, a, b, n32, n64, weight):
    if n32:
        emit(name + "_32", doc, g, a, b, n32, weight, 24)
    if n64:
        emit(name + "_64", doc, g, a, b, n64, weight, 53)


print("//! Polynomial coefficients, lowest power first. Written by `tools/fit_coefficients.py`.")
print("//! The errors are relative to the function as a whole. (tidy: table)")

ln2h = log(2) / 2 * mpf("1.01")
both("EXP", "(e^x - 1 - x) / x² for |x| ≤ ln 2 / 2.", lambda x: (exp(x) - 1 - x) / x**2, -ln2h, ln2h, 5, 11,
     lambda x: x**2 / exp(x))
lo, hi = sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1
emit("LOG_32", "(ln(1 + x) - x + x²/2) / x³ for 1 + x from √½ to √2.", lambda x: (log(1 + x) - x + x**2 / 2) / x**3,
     lo, hi, 9, lambda x: x**3 / log(1 + x) if abs(x) > mpf(10) ** -9 else x**2, 24)
emit("LOG_POWER_32", "The same, for powers of f32.", lambda x: (log(1 + x) - x + x**2 / 2) / x**3,
     lo, hi, 11, lambda x: x**3 / log(1 + x) if abs(x) > mpf(10) ** -9 else x**2, 53)
s = (sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)
emit("LOG_64", "(ln((1 + s) / (1 - s)) / s - 2) / z, z = s², for the same range.",
     lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2) / z, 0, s**2, 8, lambda z: z, 53)
emit("LOG_TAIL_64", "(ln((1 + s) / (1 - s)) / 2s - 1 - z/3) / z², z = s², for the same range.",
     lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / (2 * sqrt(z)) - 1 - z / 3) / z**2, 0, s**2, 8, lambda z: z**2, 53)
q = (pi / 4) ** 2 * mpf("1.01")
both("SIN", "(sin x - x) / x³ in x² for |x| ≤ π/4.", lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, 0, q, 4, 7, lambda z: z)
both("COS", "(cos x - 1 + x²/2) / x⁴ in x² for |x| ≤ π/4.", lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, 0, q, 3, 7, lambda z: z**2)
t = mp.tan(pi / 8) * mpf("1.001")
both("ATAN", "(atan x - x) / x³ in x² for |x| ≤ tan(π/8).", lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, 0, t**2, 5, 13, lambda z: z)
emit("ATAN_WIDE_32", "(atan x - x) / x³ in x² for |x| ≤ 1.", lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, 0, 1, 9, lambda z: z, 24)
both("ASIN", "(asin x - x) / x³ in x² for |x| ≤ ½.", lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, 0, mpf("0.25"), 6, 15, lambda z: z)
k = 2 / sqrt(pi)
both("ERF", "(erf x / x - 2/√π) in x², divided by x², for |x| ≤ 1.", lambda z: (erf(sqrt(z)) / sqrt(z) - k) / z, 0, 1, 7, 13,
     lambda z: z * sqrt(z) / erf(sqrt(z)) if z > mpf(10) ** -9 else z)
emit("ERF_TAIL_32", "-ln erfc x in x - 2.5 for 1 ≤ x ≤ 4; the error is that of erf.", lambda x: -log(erfc(x + mpf(5) / 2)), mpf(-1.5), mpf(1.5), 8,
     lambda x: erfc(x + mpf(5) / 2), 24)


def erfcx_of(t, c, factor):
    x = c * (1 + t) / (1 - t)
    return exp(x * x) * erfc(x) * factor(x)


emit("ERFC_64", "e^{x²} erfc(x) (1 + 2x) in t = (x - 3) / (x + 3) for 0 ≤ x ≤ 28.", lambda t: erfcx_of(t, 3, lambda x: 1 + 2 * x), -1,
     mpf(25) / 31, 24, lambda t: 1 / erfcx_of(t, 3, lambda x: 1 + 2 * x), 53)


def erfinv_slope(w):
    """erf⁻¹(y) / y where w = -ln(1 - y²)."""
    y = sqrt(-mp.expm1(-w))
    return mp.erfinv(y) / y


emit("ERFINV_NEAR", "erf⁻¹(y) / y in w - 3.125, w = -ln(1 - y²), for 0 ≤ w ≤ 6.25, for f32.", lambda t: erfinv_slope(t + mpf(25) / 8), mpf(-25) / 8,
     mpf(25) / 8, 12, lambda t: 1 / erfinv_slope(t + mpf(25) / 8), 53)
emit("ERFINV_FAR", "erf⁻¹(y) / y in √w - 3.25 for 2.5 ≤ √w ≤ 4, for f32.", lambda t: erfinv_slope((t + mpf(13) / 4) ** 2), mpf(-3) / 4, mpf(3) / 4, 10,
     lambda t: 1 / erfinv_slope((t + mpf(13) / 4) ** 2), 53)

def erfinv_beyond(root):
    """erf⁻¹(y) with y almost 1 and w = root²: 1 - y = 1 - √(1 - e^-w)."""
    rest = -mp.expm1(mp.log1p(-exp(-root * root)) / 2)
    x = root
    for _ in range(30):
        x += (erfc(x) - rest) * sqrt(pi) / 2 * exp(x * x)
    return x / (1 - rest)


emit("ERFINV_BEYOND", "erf⁻¹(y) / y in √w - 7.25 for 4 ≤ √w ≤ 10.5, for f32.", lambda t: erfinv_beyond(t + mpf(29) / 4), mpf(-13) / 4, mpf(13) / 4, 11,
     lambda t: 1 / erfinv_beyond(t + mpf(29) / 4), 53)
emit_ratio("NORMAL_TAIL", "e^{x²/2} (1 - Φ(x)) for 0 ≤ x ≤ 13.5.", lambda x: exp(x * x / 2) * erfc(x / sqrt(mpf(2))) / 2, 13.5, 5, 6)
emit_ratio("NORMAL_32", "(Φ(x) - ½) / x in x² for |x| ≤ 5.5, relative to Φ.", lambda z: erf(sqrt(z / 2)) / sqrt(z) / 2 if z > mpf(10) ** -20 else 1 / sqrt(2 * pi), 30.3, 6, 6,
           share=lambda z: erf(sqrt(z / 2)) / (1 + erf(sqrt(z / 2))) if z > mpf(10) ** -20 else mpf(10) ** -10)
emit_ratio("ERFC_32", "e^{x²} erfc(x) for 0 ≤ x ≤ 10.1.", lambda x: exp(x * x) * erfc(x), 10.1, 6, 6, 53)
emit_ratio("TAN_32", "tan x / x in x² for |x| ≤ π/4.", lambda z: mp.tan(sqrt(z)) / sqrt(z) if z > mpf(10) ** -20 else mpf(1), q, 3, 3, 53)


def bessel_far(order, part):
    """P or x Q of DLMF 10.17.3 in 64 / x²."""
    def g(w):
        x = 8 / sqrt(w)
        angle = x - (2 * order + 1) * pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        p, q = j * cos(angle) + y * sin(angle), y * cos(angle) - j * sin(angle)
        return sqrt(pi * x / 2) * (x * q if part else p)
    return g


def bessel_second(order):
    """What Y has beside the logarithm and the pole, divided by x for order 1."""
    def g(z):
        x = sqrt(z)
        pole = 1 / x if order else 0
        return (mp.bessely(order, x) - 2 / pi * (log(x) * mp.besselj(order, x) - pole)) / x**order
    return g


for order in (0, 1):
    words = " / x" if order else ""
    emit(f"J{order}_NEAR", f"J{order}(x){words} in x²/32 - 1 for |x| ≤ 8.", lambda t: mp.besselj(order, sqrt(32 * (1 + t))) / sqrt(32 * (1 + t)) ** order,
         -1, 1, 15, lambda t: 1, 53)
    emit(f"Y{order}_NEAR", f"(Y{order}(x) less its logarithm and pole){words} in x²/32 - 1 for 0 < x ≤ 8.", lambda t: bessel_second(order)(32 * (1 + t)),
         -1, 1, 15, lambda t: 1, 53)
    emit(f"P{order}_FAR", f"P of order {order} in 64/x² for x ≥ 8.", bessel_far(order, 0), 0, 1, 8, lambda w: 1, 53)
    emit(f"Q{order}_FAR", f"x Q of order {order} in 64/x² for x ≥ 8.", bessel_far(order, 1), 0, 1, 8, lambda w: 1, 53)
