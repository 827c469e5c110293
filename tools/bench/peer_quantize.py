# SPDX-License-Identifier: Apache-2.0
"""A peer's int8 of one model, for bench_quantize: run by the Python of an environment of its own, which
has the peer.

    peer_quantize.py nncf|aimet|modelopt MODEL DATA OUT

DATA is a folder of .npz files, a set of inputs each. OUT is a QDQ model. Each peer's defaults hold.
"""
import pathlib
import sys

import numpy as np
import onnx


def by_nncf(model: str, sets: list[dict[str, np.ndarray]], out: str) -> None:
    import nncf
    onnx.save(nncf.quantize(onnx.load(model), nncf.Dataset(sets), subset_size=len(sets)), out)


def by_aimet(model: str, sets: list[dict[str, np.ndarray]], out: str) -> None:
    from aimet_onnx.quantsim import QuantizationSimModel
    sim = QuantizationSimModel(onnx.load(model), dummy_input=sets[0], param_type="int8", activation_type="int8")
    sim.compute_encodings(sets)
    onnx.save(sim.to_onnx_qdq(), out)


def by_modelopt(model: str, sets: list[dict[str, np.ndarray]], out: str) -> None:
    from modelopt.onnx.quantization import quantize
    stacked = {name: np.concatenate([s[name] for s in sets]) for name in sets[0]}
    quantize(model, quantize_mode="int8", calibration_data=stacked, output_path=out, calibration_eps=["cpu"])


def main() -> None:
    peer, model, data, out = sys.argv[1:]
    sets = [dict(np.load(path)) for path in sorted(pathlib.Path(data).glob("*.npz"))]
    {"nncf": by_nncf, "aimet": by_aimet, "modelopt": by_modelopt}[peer](model, sets, out)


if __name__ == "__main__":
    main()
