"""mkldnn: the layout ``torch._mkldnn``, whose kernels are this library's own."""


def is_available():
    """Whether there are tensors of the layout."""
    return True
