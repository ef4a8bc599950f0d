"""Averages of parameters over processes."""
