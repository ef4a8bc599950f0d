"""Helpers of starters."""
