"""Exported programs as files."""
