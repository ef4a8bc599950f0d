"""Finding the operator whose gradient fails or is not a number."""

from __future__ import annotations

import warnings

from corten import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Turns the search on or off, for good or for a ``with`` block."""

    def __init__(self, mode, check_nan=True):
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, kind, value, traceback):
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)


class detect_anomaly:
    """Turns the search on for a ``with`` block; it is slow."""

    def __init__(self, check_nan=True):
        self.check_nan = check_nan
        self.prev = self.prev_check_nan = False
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, kind, value, traceback):
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)
