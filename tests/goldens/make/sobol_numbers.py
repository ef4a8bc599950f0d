"""Makes ``python/corten/_sobol_numbers.bin``: the numbers that Sobol' sequences begin with.

The directions of S. Joe and F. Y. Kuo (new-joe-kuo-6.21201), as PyTorch begins with them. Their
polynomials are all primitive ones up to degree 18 in order of size, so that half the differences say
which they are; the odd numbers are halved and stored byte by byte, one degree behind the other.
"""

import functools
import pathlib
import zlib

import torch

DIMENSIONS, BITS, DEGREES = 21201, 30, 18


def is_primitive(polynomial, degree):
    """Whether x generates all non-zero elements modulo the polynomial over two elements."""

    def power(exponent):
        result, base = 1, 2 if degree > 1 else 1
        while exponent:
            if exponent & 1:
                result = times(result, base)
            base, exponent = times(base, base), exponent >> 1
        return result

    def times(a, b):
        result = 0
        while b:
            result ^= a if b & 1 else 0
            a, b = a << 1, b >> 1
            a ^= polynomial if a >> degree & 1 else 0
        return result

    order = (1 << degree) - 1
    return power(order) == 1 and all(power(order // prime) != 1 for prime in prime_factors(order))


@functools.cache
def prime_factors(number):
    """The primes that divide a number."""
    found = set()
    factor = 2
    while number > 1:
        while number % factor == 0:
            found.add(factor)
            number //= factor
        factor += 1
    return found


def main():
    state = torch.zeros(DIMENSIONS, BITS, dtype=torch.long)
    torch._sobol_engine_initialize_state_(state, DIMENSIONS)
    numbers = state >> (BITS - 1 - torch.arange(BITS))
    polynomials = [
        p for d in range(1, DEGREES + 1) for p in range((1 << d) + 1, 2 << d, 2) if is_primitive(p, d)
    ]
    written = bytearray((b - a) // 2 for a, b in zip([1, *polynomials], polynomials))
    first = 1
    for degree in range(1, DEGREES + 1):
        count = sum(p >> degree == 1 for p in polynomials)
        for place in range(degree):
            halves = (numbers[first:first + count, place] - 1) // 2
            for byte in range((place + 7) // 8):
                written += bytes((halves >> 8 * byte & 255).tolist())
        first += count
    home = pathlib.Path(__file__).parents[3] / "python" / "corten"
    (home / "_sobol_numbers.bin").write_bytes(zlib.compress(bytes(written), 9))


main()
