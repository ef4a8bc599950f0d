"""Compilers that run graphs as they are, print them, or recompute in the backward pass what is cheap."""

from __future__ import annotations

from corten import ops

from .aot_autograd import aot_function, aot_module, make_boxed_compiler
from .partitioners import draw_graph, min_cut_rematerialization_partition

__all__ = [
    "debug_compile", "default_decompositions", "draw_graph_compile", "memory_efficient_fusion", "nnc_jit",
    "nop", "print_compile", "ts_compile",
]

aten = ops.aten

#: What :func:`memory_efficient_fusion` decomposes.
default_decompositions = {
    op for op in (
        aten.detach, aten.gelu_backward, aten.leaky_relu_backward, aten.sigmoid_backward, aten.threshold_backward,
        aten.hardtanh_backward, aten.hardsigmoid_backward, aten.hardswish_backward, aten.tanh_backward,
        aten.silu_backward, aten.elu_backward, aten._log_softmax_backward_data, aten._softmax_backward_data,
    )
}


@make_boxed_compiler
def nop(fx_g, _):
    """The graph as it is."""
    return fx_g


@make_boxed_compiler
def print_compile(fx_g, _):
    """The graph as it is, which is printed."""
    print(fx_g.code)
    return fx_g


@make_boxed_compiler
def debug_compile(fx_g, inps):
    """The graph as it is, which is printed with its inputs."""
    print(fx_g.code)
    print([tuple(one.shape) for one in inps if hasattr(one, "shape")])
    return fx_g


def draw_graph_compile(name):
    """A compiler that writes graphs in the language of Graphviz."""
    def compiler(fx_g, _):
        draw_graph(fx_g, name)
        return fx_g

    return make_boxed_compiler(compiler)


@make_boxed_compiler
def ts_compile(fx_g, inps):
    """The graph, which runs as generated code."""
    fx_g.recompile()
    return fx_g


def nnc_jit(f):
    """``f``, compiled."""
    return aot_function(f, ts_compile)


def memory_efficient_fusion(fn, **kwargs):
    """A function or module whose backward pass computes once more what is cheap."""
    from corten import nn
    from corten._decomp import get_decompositions

    config = {
        "fw_compiler": ts_compile, "bw_compiler": ts_compile,
        "partition_fn": min_cut_rematerialization_partition,
        "decompositions": get_decompositions(default_decompositions), **kwargs,
    }
    return aot_module(fn, **config) if isinstance(fn, nn.Module) else aot_function(fn, **config)


