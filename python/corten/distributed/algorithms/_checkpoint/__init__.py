"""Activation checkpointing by wrapping modules."""
