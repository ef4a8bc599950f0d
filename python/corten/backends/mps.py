"""Apple's GPUs: not driven by this build."""


def is_available():
    """Whether one can be used."""
    return False


def is_built():
    """Whether this build has kernels for them."""
    return False
