"""Writes tests/goldens/model.onnx with the package onnx: every kind of attribute, names of sizes, a branch, tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def value(name, shape, element_type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element_type, shape)


def branch(name, op_type):
    node = helper.make_node(op_type, ["x"], [f"{name}_result"], name=f"{name}_node")
    return helper.make_graph([node], name, [], [value(f"{name}_result", ["batch", 2])])


def model():
    weight = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3) / 4, "weight")
    sizes = numpy_helper.from_array(np.array([-1, 2], dtype=np.int64), "sizes")
    gemm = helper.make_node("Gemm", ["x", "weight"], ["product"], name="gemm", alpha=0.5, transB=0)
    gemm.metadata_props.add(key="namespace", value="net/gemm")
    chosen = helper.make_node(
        "If", ["flag"], ["chosen"], name="choice", then_branch=branch("then", "Relu"), else_branch=branch("else", "Neg")
    )
    constant = helper.make_node("Constant", [], ["half"], name="half", value=numpy_helper.from_array(np.float32(0.5).reshape(()), ""))
    own = helper.make_node(
        "Own", ["product", "", "half"], ["out"], name="own", domain="corten.test", floats=[0.25, 1.5], ints=[3, -1], mode="edge",
        names=["a", "b"],
    )
    graph = helper.make_graph(
        [gemm, chosen, constant, own], "main_graph", [value("x", ["batch", 2]), value("flag", [], TensorProto.BOOL)],
        [value("out", ["batch", None]), value("chosen", ["batch", 2])], [weight, sizes],
        value_info=[value("product", ["batch", 3])],
    )
    made = helper.make_model(
        graph, producer_name="pytorch", producer_version="1.0", ir_version=10,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("corten.test", 1)],
    )
    made.metadata_props.add(key="task", value="test")
    return made


if __name__ == "__main__":
    (Path(__file__).parents[1] / "model.onnx").write_bytes(model().SerializeToString(deterministic=True))
