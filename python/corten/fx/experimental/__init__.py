"""Passes for inference."""
