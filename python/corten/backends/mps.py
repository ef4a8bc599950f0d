"""Apple's GPUs: not driven by this build."""


def is_available():
    """Whether one can be used."""
    return False


def is_built():
    """Whether this build has kernels for them."""
    return False


def is_macos_or_newer(major, minor):
    """Whether this is macOS, of at least a version."""
    import platform

    if platform.system() != "Darwin":
        return False
    found = platform.mac_ver()[0].split(".")
    return tuple(int(part) for part in found[:2]) >= (major, minor)
