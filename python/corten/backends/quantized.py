"""Engines of quantised operators."""

engine = "none"
supported_engines = ["none"]
