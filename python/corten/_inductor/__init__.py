"""The compiler behind ``compile``, of which this build has the settings: kept, without effect."""

from corten._inductor import config  # noqa: F401
