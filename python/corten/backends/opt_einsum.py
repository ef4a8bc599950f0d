"""The order in which ``einsum`` contracts more than two operands."""

enabled = False
strategy = None


def is_available():
    """Whether the package that searches for a good order is used."""
    return False
