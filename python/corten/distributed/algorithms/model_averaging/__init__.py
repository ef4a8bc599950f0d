"""Averaging the parameters of models that train apart for some steps."""
