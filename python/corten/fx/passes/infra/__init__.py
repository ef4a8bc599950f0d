"""Passes as objects, and their order."""
