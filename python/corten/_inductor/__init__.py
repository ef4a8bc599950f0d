"""The compiler behind ``compile``, of which this build has the settings: kept, without effect."""

from corten._inductor import config  # noqa: F401
from corten.compiler import cudagraph_mark_step_begin  # noqa: F401


def list_mode_options(mode=None, dynamic=None):
    """The settings of each mode of compilation, or of one: none has effect here."""
    modes = {
        "default": {},
        "reduce-overhead": {"triton.cudagraphs": True},
        "max-autotune-no-cudagraphs": {
            "max_autotune": True, "coordinate_descent_tuning": True,
        },
        "max-autotune": {
            "max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True,
        },
    }
    if mode is None:
        return modes
    if mode not in modes:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(modes)}")
    return modes[mode]


def list_options():
    """The names of the settings of compilation."""
    return sorted(config.shallow_copy_dict())
