# SPDX-License-Identifier: Apache-2.0
"""Shows that the suite's judges can fail: each gets a good conversion and doctored ones.

A small model is converted by hand here, as `demi convert` would; every fault that is then put into
the result must be found by the judge that is there for it, and the good result must pass all.
"""

import sys
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite import engines, lowclass, metric, preserve, validity, walk
from suite.model import Model
from suite.variants import Variant

KEEP, LOW = Variant("float16", "keep"), Variant("float16", "low")


def source() -> onnx.ModelProto:
    """y = Relu(MatMul(x, W)), marked everywhere."""
    info = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), "W")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["t"], name="matmul"),
         helper.make_node("Relu", ["t"], ["y"], name="relu")], "main",
        [info("x", TensorProto.FLOAT, ["N", 4])], [info("y", TensorProto.FLOAT, ["N", 4])],
        [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    preserve.mark(model)
    return model


def convert(model: onnx.ModelProto) -> onnx.ModelProto:
    """The good conversion of `source` to float16 with I/O kept."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph, weight = result.graph, result.graph.initializer[0]
    weight.raw_data = numpy_helper.to_array(weight).astype(np.float16).tobytes()
    weight.data_type = TensorProto.FLOAT16
    graph.node[0].input[0], graph.node[1].output[0] = "x_low", "y_low"
    graph.node.insert(0, helper.make_node("Cast", ["x"], ["x_low"], to=TensorProto.FLOAT16))
    graph.node.append(helper.make_node("Cast", ["y_low"], ["y"], to=TensorProto.FLOAT))
    return result


def report(dtype: str = "float16", reason: str = "") -> dict:
    return {"nodes": [{"name": "matmul", "op_type": "MatMul", "dtype": dtype, "reason": reason},
                      {"name": "relu", "op_type": "Relu", "dtype": dtype, "reason": ""}]}


def judges(model: onnx.ModelProto, said: dict, variant: Variant) -> dict[str, list[str]]:
    """What every judge finds in a conversion of `source`."""
    base = source()
    made, plain = Model(model.SerializeToString()), Model(base.SerializeToString())
    found = {"valid": validity.problems(made, plain),
             "contract": validity.contract(model, base, variant),
             "preserved": preserve.lost(base, model),
             "low": lowclass.problems(said, base, made.inferred, variant.to), "numbers": []}
    try:
        feeds = {"x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)}
        want = plain.runner(engines.OrtEngine).run(feeds)[0]
        got = made.runner(engines.OrtEngine).run(feeds)[0]
        text = metric.compare(got, want, metric.TOLERANCE[variant.to], "y")[1]
        found["numbers"] = [text] if text else []
    except engines.CannotRun as error:
        found["numbers"] = [str(error)]
    return found


def lose_doc(model: onnx.ModelProto) -> None:
    next(n for n in model.graph.node if n.name == "relu").doc_string = ""


def lose_unknown(model: onnx.ModelProto) -> None:
    model.graph.output[0].DiscardUnknownFields()


def lose_props(model: onnx.ModelProto) -> None:
    del model.graph.metadata_props[:]


def scale_weight(model: onnx.ModelProto) -> None:
    weight = model.graph.initializer[0]
    weight.raw_data = (numpy_helper.to_array(weight) * np.float16(1.1)).tobytes()


def fix_symbol(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3


FAULTS: list[tuple[str, Callable[[onnx.ModelProto], object], str]] = [
    ("a type that does not fit",
     lambda m: setattr(m.graph.initializer[0], "data_type", TensorProto.INT16), "valid"),
    ("a missing input", lambda m: m.graph.node[1].input.pop(), "valid"),
    ("a stale value_info", lambda m: m.graph.value_info.add().CopyFrom(
        helper.make_tensor_value_info("t", TensorProto.FLOAT, ["N", 4])), "valid"),
    ("another input name", lambda m: setattr(m.graph.input[0], "name", "z"), "contract"),
    ("an output of another type", lambda m: setattr(
        m.graph.output[0].type.tensor_type, "elem_type", 10), "contract"),
    ("a symbolic name lost", fix_symbol, "contract"),
    ("a shape lost", lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"), "contract"),
    ("a doc string lost", lose_doc, "preserved"),
    ("an unknown field lost", lose_unknown, "preserved"),
    ("metadata lost", lose_props, "preserved"),
    ("another producer", lambda m: setattr(m, "producer_name", "me"), "preserved"),
    ("another IR version", lambda m: setattr(m, "ir_version", 9), "preserved"),
    ("an opset import lost", lambda m: setattr(m.opset_import[0], "version", 16), "preserved"),
    ("another weight", scale_weight, "numbers"),
]
REPORTS = [  # (what, report, model is converted, the judge finds something)
    ("the good report", report(), True, False),
    ("kept for a reason", report("float32", "excluded"), False, False),
    ("kept without a reason", report("float32"), False, True),
    ("claims what is not so", report(), False, True),
    ("denies what is so", report("float32", "no reason at all"), True, True),
    ("an empty report", {"nodes": []}, True, True),
]
VALUES = [  # (what, result, source's, equal)
    ("within 2 %", [1.0, 0.99], [1.0, 1.0], True), ("beyond", [1.0, 0.97], [1.0, 1.0], False),
    ("NaN elsewhere", [np.nan, 1.0], [1.0, np.nan], False), ("NaN", [np.nan], [np.nan], True),
    ("Inf lost", [65504.0], [np.inf], False), ("Inf's sign", [-np.inf], [np.inf], False),
    ("zeros", [5e-4], [0.0], True), ("not zeros", [2e-3], [0.0], False),
    ("shape", [[1.0]], [1.0], False), ("empty", [], [], True),
]


def main() -> None:
    failures = 0

    def expect(what: str, good: bool, found: object) -> None:
        nonlocal failures
        if not good:
            failures += 1
            print(f"FAIL {what}: {found}")

    found = judges(convert(source()), report(), KEEP)
    expect("a good conversion", not any(found.values()), found)
    for what, damage, judge in FAULTS:
        model = convert(source())
        damage(model)
        found = judges(model, report(), KEEP)
        expect(what, bool(found[judge]), found)
    for what, said, converted, wrong in REPORTS:
        model = convert(source()) if converted else source()
        found = lowclass.problems(said, source(), Model(model.SerializeToString()).inferred, "float16")
        expect(f"report: {what}", bool(found) == wrong, found)
    for what, got, want, equal in VALUES:
        arrays = [np.array(v, np.float32) for v in (got, want)]
        text = metric.compare(*arrays, 0.02, "y")[1]
        expect(f"values: {what}", (not text) == equal, text)
    integers = metric.compare(np.array([1, 2]), np.array([1, 3]), 0.02, "y")[1]
    expect("values: integers", bool(integers), integers)
    low = validity.contract(all_low(source()), source(), LOW)
    expect("low I/O where it is allowed", not low, low)
    expect("low I/O where it is not", bool(
        validity.contract(all_low(source()), source(), KEEP)), "nothing found")
    print(f"suite_test: {len(FAULTS) + len(REPORTS) + len(VALUES) + 4} cases, {failures} failures")
    sys.exit(1 if failures else 0)


def all_low(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every float32 type called float16."""
    for message in walk.messages(model):
        if isinstance(message, onnx.TypeProto.Tensor):
            message.elem_type = TensorProto.FLOAT16
    return model


if __name__ == "__main__":
    main()
