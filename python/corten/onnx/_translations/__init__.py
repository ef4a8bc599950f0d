"""Translations of operators to ONNX, a module for each family.

Each function has the arguments of the operator's schema behind the builder ``g``; tensors and sizes that are known when
the model runs are values, all others what they are in Python. It gives the value of the result, or a tuple of them.
"""
