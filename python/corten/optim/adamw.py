"""The home of ``AdamW``."""

from corten.optim.adam import AdamW

__all__ = ["AdamW"]
