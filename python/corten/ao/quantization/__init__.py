"""Quantisation of models."""
from .observer import *
