# SPDX-License-Identifier: Apache-2.0
"""What bench_runtime measures: models, their inputs, and the variants of each.

float is the model itself; float16 and bfloat16 are what `demi convert` makes of it; int8 is
onnxruntime.quantization's static QDQ form on the same seeded inputs: activations of 8 bits without
a sign, weights with one, a scale a channel. int8w and int4w have weights of so many bits alone
(weight_only.py); ONNX Runtime has them as MatMulNBits. Files are made once and kept; plans are always new.
"""

import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/suites"))
import weight_only
from suite import digits, engines, made_models, real_uses  # noqa: E402

VARIANTS = ("float", "float16", "bfloat16", "int8")
WEIGHT_BITS = {"int8w": 8, "int4w": 4}
BLOCKS_OPSET = 21  # the first whose DequantizeLinear has blocks
QDQ_OPSET = 13  # the first whose QuantizeLinear has a scale a channel

MADE = {
    "resnet50": lambda: made_models.resnet50(),
    "resnet50-b8": lambda: made_models.batched(made_models.resnet50(), 8),
    "resnet152": lambda: made_models.resnet152(),
    "resnet152-b8": lambda: made_models.batched(made_models.resnet152(), 8),
    "mobilenetv2": lambda: made_models.mobilenetv2(),
    "mobilenetv2-b8": lambda: made_models.batched(made_models.mobilenetv2(), 8),
    "bert": lambda: made_models.bert(),
    "bert-norms": lambda: made_models.bert(fused_norm=True),
    "bert_words": lambda: made_models.bert_words(),
    "bert-b8": lambda: made_models.batched(made_models.bert(), 8),
    "gpt2": lambda: made_models.gpt2(),
    "gpt2-prefill": lambda: made_models.gpt2(past=0, tokens=128),
    "lstm": lambda: made_models.lstm(),
    "detector": lambda: made_models.detector(),
}

# Real models (build/data/models) and the shapes of one picture, file or piece of sound.
SOUND = {"input": [1, 576], "state": [2, 1, 128]}
REAL = {
    "magika": ("magika/model.onnx", {"bytes": [1, 2048]}),
    "text-detector": ("rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", {"x": [1, 3, 320, 320]}),
    "text-recognizer": ("rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", {"x": [1, 3, 48, 320]}),
    "text-classifier": ("rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                        {"x": [1, 3, 48, 192]}),
    "silero": ("silero-vad/silero_vad.onnx", SOUND | {"sr": 16_000}),
    "silero-op15": ("silero-vad/silero_vad_16k_op15.onnx", SOUND | {"sr": 16_000}),
    "silero-half": ("silero-vad/silero_vad_half.onnx", SOUND),
    "silero-ifless": ("silero-vad/silero_vad_op18_ifless.onnx", SOUND | {"sr": 16_000}),
    "silero-openvino": ("silero-vad/silero_vad_openvino_16k.onnx", SOUND),
    "silero-sequence": ("silero-vad/silero_vad_16k_sequence.onnx",
                        {"input": [7, 576], "h": [1, 1, 128], "c": [1, 1, 128]}),
}


def batch_case(name: str, batch: int) -> str:
    """The name of that made model at that batch, which may be a new one."""
    full = name if batch == 1 else f"{name}-b{batch}"
    MADE.setdefault(full, lambda: made_models.batched(getattr(made_models, name)(), batch))
    return full


class Unmade(Exception):
    """Why there is no such variant of a model."""


def call(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], check=False, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        raise Unmade((done.stderr.strip() or "it fails").splitlines()[-1][:160])


class Case:
    """A model: its files are model.onnx and model.npz, and a model and a plan a variant."""

    def __init__(self, name: str, args: argparse.Namespace) -> None:
        given = pathlib.Path(name)
        self.name, self.demi = given.stem if given.suffix else name, args.demi
        self.folder = args.folder
        self.source = self.path(".onnx")
        if given.suffix:
            self.source = given
        elif name in REAL:
            self.source = ROOT / "build/data/models" / REAL[name][0]
        elif not self.source.exists():
            self.made_by(lambda path: onnx.save(MADE[name](), path), self.source)
        self.feeds = self.path(".npz")
        np.savez(self.feeds, **self.inputs(onnx.load(self.source, load_external_data=False)))

    def path(self, suffix: str) -> pathlib.Path:
        return self.folder / (self.name + suffix)

    def made_by(self, make, path: pathlib.Path) -> None:  # noqa: ANN001
        """All of a file or none: what was interrupted is made anew."""
        fresh = path.with_suffix(".new")
        make(fresh)
        fresh.rename(path)

    def inputs(self, model: onnx.ModelProto, seed: int = 1) -> dict[str, np.ndarray]:
        """Seeded ones: pictures of text, sound, bytes, or what demi makes up."""
        if self.name in MADE:
            return made_models.feeds_of(model, seed)
        if self.name in REAL:
            rng = np.random.default_rng(seed)
            file, use = REAL[self.name]
            if pathlib.Path(file).stem in real_uses.PICTURES:
                return {v: digits.picture(rng, shape, 4) for v, shape in use.items()}
            return real_uses.fill(self.name, model, use, rng)
        inputs = engines.fed_inputs(model)  # as demi makes them up: rows that tables have, masks
        with tempfile.TemporaryDirectory() as folder:
            call(self.demi, "run", self.source, "--random", seed, "--save-inputs", folder, "--quiet")
            return {v.name: engines.read_value(pathlib.Path(folder, f"input_{i}.pb"), v.type)
                    for i, v in enumerate(inputs)}

    def model(self, variant: str) -> pathlib.Path:
        """The variant's model. Raises Unmade."""
        if variant == "float":
            return self.source
        path = self.path(f".{variant}.onnx")
        if path.exists() and path.stat().st_mtime > self.source.stat().st_mtime:
            return path
        bits = WEIGHT_BITS.get(variant.removesuffix("-nbits"))
        if variant == "int8":
            self.made_by(self.quantize, path)
        elif bits:
            self.made_by(lambda fresh: self.weight_only(fresh, bits, variant.endswith("-nbits")),
                         path)
        else:
            self.made_by(lambda fresh: call(self.demi, "convert", self.source, "--to", variant,
                                            "-o", fresh, "--quiet"), path)
        return path

    def plan(self, variant: str) -> pathlib.Path:
        path = self.path(f".{variant}.plan")
        call(self.demi, "compile", self.model(variant), "-o", path)
        return path

    def weight_only(self, path: pathlib.Path, bits: int, as_nbits: bool) -> None:
        newer = self.path(".newer.onnx")
        call(self.demi, "opt", self.source, "-o", newer, "--passes",
             f"upgrade-opset{{to={BLOCKS_OPSET}}}")
        model = onnx.load(newer)
        newer.unlink()
        if not weight_only.convert(model, bits, as_nbits):
            raise Unmade("it has no matrix of constants")
        onnx.save(model, path)

    def quantize(self, path: pathlib.Path) -> None:
        from onnxruntime import quantization
        with np.load(self.feeds) as file:
            feeds = {name: file[name] for name in file.files}

        # A table that is also a product's weight gets a scale for each of its rows, which does not
        # fit what Gather gives.
        kinds = {n.op_type for n in onnx.load(self.source, load_external_data=False).graph.node}
        kinds &= set(quantization.registry.QDQRegistry)

        class Reader(quantization.CalibrationDataReader):
            left = [feeds]

            def get_next(self) -> dict[str, np.ndarray] | None:
                return self.left.pop() if self.left else None

        newer = self.path(".upgraded.onnx")
        opsets = onnx.load(self.source, load_external_data=False).opset_import
        old = any(o.domain in ("", "ai.onnx") and o.version < QDQ_OPSET for o in opsets)
        call(self.demi, "opt", self.source, "-o", newer, "--passes",
             f"upgrade-opset{{to={QDQ_OPSET}}}" if old else "")
        try:  # BatchNormalization goes into weights first, as that library's manual asks for
            quantization.shape_inference.quant_pre_process(newer, newer, skip_symbolic_shape=True)
            quantization.quantize_static(
                newer, path, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
                op_types_to_quantize=sorted(kinds - {"Gather"}))
        except Exception as error:  # whatever that library raises is the reason
            raise Unmade(engines.first_line(error)) from error
        finally:
            newer.unlink(missing_ok=True)
        kinds = {n.op_type for n in onnx.load(path, load_external_data=False).graph.node}
        if "QuantizeLinear" not in kinds:
            path.unlink()
            raise Unmade("onnxruntime.quantization quantizes nothing in it")


def score(want: list, have: list) -> float:
    """The least signal to noise of the outputs over all sets, in dB, 100 at most; not of what is not float32."""
    worst = math.inf
    for i, first in enumerate(want[0]):
        if not isinstance(first, np.ndarray) or first.dtype != np.float32:
            continue
        signal = sum(float(np.sum(np.square(w[i], dtype=np.float64))) for w in want)
        noise = sum(float(np.sum(np.square(h[i].astype(np.float64) - w[i])))
                    for h, w in zip(have, want))
        worst = min(worst, 10 * math.log10(signal / noise) if noise else 100)
    return worst
