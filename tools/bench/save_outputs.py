# SPDX-License-Identifier: Apache-2.0
"""Saves what ONNX Runtime computes, for `demi compare` to hold a model or plan against.

    demi run model.onnx --random 1 --save-inputs in --quiet
    tools/bench/save_outputs.py model.onnx --data in --out saved --inner
    demi compare model.onnx saved --data in

Writes output_N.pb and NAME.npy, NAME as `demi run --output-dir` writes it; with --inner NAME.npy of
every value of the main graph, too. Optimizations are off, so that all of them are computed.
"""

import argparse
import pathlib
import sys
import urllib.parse

import numpy as np
import onnx
import onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "suites"))
from suite import engines


def file_name(name: str) -> str:
    return urllib.parse.quote(name, safe="") + ".npy"


def session_of(path: pathlib.Path, model: onnx.ModelProto, inner: bool) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if not inner:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    outputs = {value.name for value in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in outputs:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    onnx.load_external_data_for_model(model, str(path.parent))
    return ort.InferenceSession(model.SerializeToString(), options,
                                providers=["CPUExecutionProvider"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of input_N.pb")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write to")
    parser.add_argument("--inner", action="store_true", help="every value of the main graph, too")
    args = parser.parse_args()
    model = onnx.load(args.model, load_external_data=False)
    feeds = engines.read_feeds(model, args.data)
    if feeds is None:
        raise SystemExit(f"{args.data}: its files are not the model's inputs")
    names = [value.name for value in model.graph.output]
    session = session_of(args.model, model, args.inner)
    args.out.mkdir(exist_ok=True)
    for value, array in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        if not isinstance(array, np.ndarray):
            continue
        np.save(args.out / file_name(value.name), array)
        if value.name in names:
            path = args.out / f"output_{names.index(value.name)}.pb"
            onnx.save_tensor(onnx.numpy_helper.from_array(array, value.name), path)


if __name__ == "__main__":
    main()
