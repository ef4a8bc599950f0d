"""Who allocates: frames of Python for the history of the caching allocator."""

from __future__ import annotations

import sys

__all__ = []

#: More frames than that are not kept.
_MOST = 64


def frames():
    """A label of the innermost frame, and all frames of this thread, the innermost first."""
    found = []
    frame = sys._getframe()
    # This function is not who allocates.
    frame = frame.f_back
    while frame is not None and len(found) < _MOST:
        code = frame.f_code
        found.append({"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno or 0})
        frame = frame.f_back
    label = f"{found[0]['filename']}:{found[0]['line']} ({found[0]['name']})" if found else "unknown"
    return label, found
