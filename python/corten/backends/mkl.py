"""mkl: not used; kernels are this library's own."""


def is_available():
    """Whether the library can be used."""
    return False
