"""The GPUs that ``CUDA_VISIBLE_DEVICES`` leaves, counted without starting CUDA."""

from __future__ import annotations

import os

__all__ = []

_MOST = 64


def parse(value):
    """Indices, or identities that begin with GPU- or MIG-, up to the first word that is neither. Nothing is left
    where one is named twice."""
    if value is None:
        return list(range(_MOST))
    words = value.split(",")
    for start in ("GPU-", "MIG-"):
        if value.startswith(start):
            found = []
            for word in (word.strip() for word in words):
                if word in found:
                    return []
                if not word.startswith(start):
                    break
                found.append(word)
            return found
    found = []
    for word in words:
        number = _leading_number(word)
        if number in found:
            return []
        if number is None:
            break
        found.append(number)
    return found


def _leading_number(word):
    """As C reads it: what follows the digits does not matter; negative numbers end the list."""
    word = word.strip()
    sign = word[:1] == "-"
    digits = ""
    for letter in word.lstrip("+-"):
        if not letter.isdigit():
            break
        digits += letter
    return int(digits) if digits and not sign else None


def _ordinals(identities, known):
    """The places of identities, which may be shortened as long as they are unique."""
    found = []
    for identity in identities:
        matches = [place for place, full in enumerate(known) if full.startswith(identity)]
        # The first that is not known, or not clear, ends the list.
        if len(matches) != 1:
            break
        if matches[0] in found:
            return []
        found.append(matches[0])
    return found


def count():
    """How many GPUs there are for this process; ``None`` where the management library is missing."""
    from corten.cuda import _nvml

    visible = parse(os.environ.get("CUDA_VISIBLE_DEVICES"))
    try:
        if not visible:
            return 0
        if isinstance(visible[0], str):
            if visible[0].startswith("MIG-"):
                return None
            visible = _ordinals(visible, _nvml.identities())
            return len(visible)
        present = _nvml.device_count()
    except RuntimeError:
        return None
    left = 0
    for index in visible:
        if index >= present:
            break
        left += 1
    return left
