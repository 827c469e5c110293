# SPDX-License-Identifier: Apache-2.0
"""`check --against`: a doctored conversion is not its source; a conversion is what its policy makes, and
computes the same within --max-error. Every fault of FAULTS is put into the conversion of a small model,
and must be found. (The corpus run shows that good conversions pass, and that mutants which pass are
right: judges/against.py, judges/check.py.)
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from suite import preserve
from suite.command import Demi, work_folder
from suite.variants import Variant

ROOT = pathlib.Path(__file__).resolve().parents[2]


def source() -> onnx.ModelProto:
    """A product, a branch that reads it, a custom operator: with names, metadata and doc
    strings."""
    info = helper.make_tensor_value_info
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array(rng.standard_normal((4, 4), np.float32), n) for n in "WV"]
    branch = helper.make_graph([helper.make_node("Relu", ["t"], ["a"], name="in_branch")], "then",
                               [], [info("a", TensorProto.FLOAT, None)])
    other = helper.make_graph([helper.make_node("MatMul", ["t", "V"], ["b"])], "else", [],
                              [info("b", TensorProto.FLOAT, None)])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["t"], name="mm"),
         helper.make_node("If", ["c"], ["u"], name="if", then_branch=branch, else_branch=other),
         helper.make_node("Own", ["u"], ["v"], name="own", domain="com.x", depth=3),
         helper.make_node("Transpose", ["u"], ["p"], name="turn", perm=[1, 0]),
         helper.make_node("MatMul", ["p", "V"], ["y"], name="last")], "main",
        [info("x", TensorProto.FLOAT, ["N", 4]), info("c", TensorProto.BOOL, [])],
        [info("y", TensorProto.FLOAT, [4, 4]), info("v", TensorProto.FLOAT, [None, None])], weights)
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.x", 1)])
    preserve.mark(model)
    return model


def node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(n for n in model.graph.node if n.name == name)


def change_weight(model: onnx.ModelProto) -> None:
    """One weight off by the last bit."""
    weight = model.graph.initializer[0]
    data = bytearray(weight.raw_data)
    data[0] ^= 1
    weight.raw_data = bytes(data)


def swap_operands(model: onnx.ModelProto) -> None:
    mm = node(model, "mm")
    mm.input[0], mm.input[1] = mm.input[1], mm.input[0]


FAULTS: list[tuple[str, Callable[[onnx.ModelProto], object]]] = [
    ("a weight", change_weight), ("operands", swap_operands),
    ("an operator", lambda m: setattr(node(m, "turn"), "op_type", "Identity")),
    ("an attribute", lambda m: node(m, "turn").attribute[0].ints.reverse()),
    ("a custom attribute", lambda m: setattr(node(m, "own").attribute[0], "i", 4)),
    ("an attribute lost", lambda m: node(m, "own").attribute.pop(0)),
    ("a node lost", lambda m: m.graph.node.remove(node(m, "own"))),
    ("a node added", lambda m: m.graph.node.append(
        helper.make_node("Relu", ["x"], ["more"], name="more"))),
    ("a node in a branch", lambda m: setattr(
        node(m, "if").attribute[0].g.node[0], "op_type", "Sigmoid")),
    ("a node's name", lambda m: setattr(node(m, "last"), "name", "end")),
    ("metadata", lambda m: node(m, "own").metadata_props.pop()),
    ("a doc string", lambda m: setattr(node(m, "mm"), "doc_string", "")),
    ("an unknown field", lambda m: node(m, "mm").DiscardUnknownFields()),
    ("the graph's metadata", lambda m: m.graph.metadata_props.pop()),
    ("the producer", lambda m: setattr(m, "producer_name", "me")),
    ("an input's shape", lambda m: setattr(
        m.graph.input[0].type.tensor_type.shape.dim[1], "dim_value", 5)),
    ("an input's symbol", lambda m: setattr(
        m.graph.input[0].type.tensor_type.shape.dim[0], "dim_param", "M")),
    ("an input's type", lambda m: setattr(
        m.graph.input[0].type.tensor_type, "elem_type", TensorProto.DOUBLE)),
    ("the opset", lambda m: setattr(m.opset_import[0], "version", 16)),
    ("an output lost", lambda m: m.graph.output.pop()),
]


def against(demi: Demi, path: pathlib.Path, reference: pathlib.Path) -> tuple[int, list[str], str]:
    """(exit code, differences, what standard error says)."""
    report = demi.folder / "check.json"
    report.unlink(missing_ok=True)
    run = demi.run("check", str(path), "--against", str(reference), "--quiet", "--json",
                   str(report))
    said = json.loads(report.read_bytes()) if report.exists() else {}
    return run.code, said.get("differences", []), run.stderr


def judge_faults(demi: Demi) -> list[str]:
    found = []
    reference, made, broken = (demi.folder / n for n in ("ref.onnx", "made.onnx", "broken.onnx"))
    reference.write_bytes(source().SerializeToString())
    _, out = demi.convert(str(reference), Variant("float16", "keep"))
    made.write_bytes(out)
    code, lines, text = against(demi, made, reference)
    if code or lines:
        found.append(f"a good conversion: exit {code}, {lines} {text}")
    for what, damage in FAULTS:
        model = onnx.load_from_string(out)
        damage(model)
        if model.SerializeToString() == out:
            found.append(f"{what}: nothing was changed")
        broken.write_bytes(model.SerializeToString())
        code, lines, text = against(demi, broken, reference)
        if code != 1 or not (lines or "error" in text or "demi:" in text):
            found.append(f"{what}: exit {code}, {lines}")
    return found


def small() -> onnx.ModelProto:
    """y = Relu(x W), z = -x."""
    info, rng = helper.make_tensor_value_info, np.random.default_rng(1)
    weight = numpy_helper.from_array(rng.standard_normal((4, 4), np.float32), "W")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["t"], name="mm"),
         helper.make_node("Relu", ["t"], ["y"]), helper.make_node("Neg", ["x"], ["z"])], "main",
        [info("x", TensorProto.FLOAT, [2, 4])],
        [info(n, TensorProto.FLOAT, [2, 4]) for n in "yz"], [weight])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


def write_data(folder: pathlib.Path) -> None:
    """Two sets of inputs, the second one of NaN's neighborhood: 16 bits overflow there."""
    for i, scale in enumerate((1, 30000)):
        data = folder / f"test_data_set_{i}"
        data.mkdir(parents=True)
        x = numpy_helper.from_array(np.full((2, 4), scale, np.float32), "x")
        (data / "input_0.pb").write_bytes(x.SerializeToString())


def judge_numbers(demi: Demi) -> list[str]:
    """The numeric gate and the policy: (arguments, exit code, what is said)."""
    reference, made = demi.folder / "small.onnx", demi.folder / "small16.onnx"
    other, data = demi.folder / "other.onnx", demi.folder / "data"
    reference.write_bytes(small().SerializeToString())
    _, out = demi.convert(str(reference), Variant("float16", "keep"))
    made.write_bytes(out)
    broken = onnx.load_from_string(out)
    change_weight(broken)
    broken.graph.initializer[0].raw_data = bytes(32)
    other.write_bytes(broken.SerializeToString())
    write_data(data)
    policy = demi.folder / "policy.json"
    policy.write_text(subprocess.run(
        [demi.path, "convert", "--to", "bfloat16", "--print-policy"], capture_output=True,
        text=True, check=True).stdout)
    one = str(data / "test_data_set_0")
    cases = [
        ([made, "--against", reference, "--random", "1"], 0, "0 of 2 outputs beyond 0.02"),
        ([made, "--against", reference, "--max-error", "0.01"], 0, "over 1 set of inputs"),
        ([made, "--against", reference, "--max-error", "1e-9", "--atol", "0"], 1, "'y': largest"),
        ([made, "--against", reference, "--data", one], 0, "0 of 2"),
        ([made, "--against", reference, "--data", data], 1, "test_data_set_1"),
        ([other, "--against", reference, "--random", "1"], 1, "1 of 2 outputs beyond"),
        ([reference, "--against", reference, "--random", "1", "--max-error", "0"], 0, "0 of 2"),
        ([made, "--against", reference, "--policy", "float16"], 0, "the same as"),
        ([made, "--against", reference, "--policy", policy], 1, "by the policy: "),
        ([reference, "--against", reference, "--policy", "float16"], 1, "by the policy: "),
        ([made, "--against", reference, "--policy", "nowhere"], 2, "--policy takes a file"),
        ([made, "--against", reference, "--max-error", "x"], 2, "bad value of option"),
        ([made, "--against", reference, "--data", demi.folder / "none"], 2, "folder"),
        ([made, "--max-error", "1"], 2, "nothing to compare with"),
        ([made, "--policy", "float16"], 2, "nothing to compare with"),
        (["-", "--against", reference, "--random", "1"], 2, "cannot read standard input twice"),
    ]
    found = []
    for words, code, text in cases:
        done = subprocess.run([demi.path, "check", *map(str, words)], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != code or text not in done.stdout + done.stderr:
            found.append(f"{words[1:]}: exit {done.returncode}, {done.stdout[-300:]} {done.stderr}")
    done = subprocess.run([demi.path, "check", str(made), "--against", str(reference), "--data",
                           str(data), "--quiet", "--json"], capture_output=True, check=False)
    numbers = json.loads(done.stdout)["numbers"]
    if (numbers["sets"], numbers["beyond"], len(numbers["outputs"])) != (2, 1, 2):
        found.append(f"--json: {numbers}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Shows what check --against finds.")
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    args, folder = parser.parse_args(), work_folder()
    try:
        demi = Demi(args.demi, folder)
        failures = judge_faults(demi) + judge_numbers(demi)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for text in failures:
        print("FAIL", text[:500])
    print(f"against: {len(FAULTS)} faults, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
