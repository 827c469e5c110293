# SPDX-License-Identifier: Apache-2.0
"""Random models, measured on their own inputs and quantized in every way of WAYS:
  - the file passes ONNX's full check, and is the same bytes with one thread and with two;
  - ONNX Runtime runs it, without optimizations, and is as near to demi's own run as both are to the
    float model: what two runtimes round differently is at most a part of what quantizing lost;
  - what each way loses is, in the median of all models, no more than LEAST says;
  - strip-qdq leaves no pair that the source had not, and results no further from the source than
    weights can be that were rounded once.

Not judged: sources that ONNX Runtime can't run or whose outputs are not finite; numbers of outputs that
rounding makes jump; types that ONNX Runtime has no kernels for.
"""

import math
import statistics
from collections.abc import Iterator

import numpy as np
import onnx

from judges import Finding
from suite import engines, walk
from suite.model import Model
from suite.package import demi
from suite.subject import Subject

KINDS = END_KINDS = {"style", "graph"}
CALIBRATED = {"int8": {},
              "int8 minmax": {"activations": "int8", "symmetric": True, "calibration": "minmax"},
              "int8 uint16": {"activations": "uint16", "calibration": "percentile"},
              "int8 mse": {"calibration": "mse"}}
WEIGHTS = {"int8-weights": {}, "int4-weights": {}, "int4-weights block": {"block": 16}, "fp8-weights": {}}
WAYS = CALIBRATED | WEIGHTS
# dB that the median of at least FEW models keeps, of those that something was quantized in: 3 to 5 less
# than was measured.
LEAST = dict(zip(WAYS, [43, 41, 44, 43, 44, 27, 27, 33]))
FEW = 20
PAIRS = {"QuantizeLinear", "DequantizeLinear"}
SHARE = 0.5  # of what quantizing lost, that runtimes may differ by
EXACT = 1e-5  # of the values: what they differ by in float
NO_KERNEL = ("NOT_IMPLEMENTED", "Could not find an implementation", "is not a registered function/op",
             "is under development")


def off(have: object, want: object) -> tuple[float, float]:
    """Roots of the sums of squares: of the difference, and of what is wanted."""
    a, b = np.asarray(have, np.float64), np.asarray(want, np.float64)
    return float(np.linalg.norm(a - b)), float(np.linalg.norm(b))


def pairs(model: Model) -> int:
    return sum(n.op_type in PAIRS for n in walk.model_nodes(model.proto))


def quantize(subject: Subject, way: str, threads: int) -> Model:
    options = dict(WAYS[way])
    if way in CALIBRATED:
        options |= {"calibrate": subject.feeds, "threads": threads}
    return subject.model(demi.convert(subject.source.data, to=way.split()[0], **options)[0])


class Quantized:
    """One way of quantizing one subject."""

    def __init__(self, subject: Subject, way: str, want: list[object], counts: list[int]) -> None:
        self.subject, self.way, self.want, self.counts = subject, way, want, counts
        self.made = quantize(subject, way, 1)

    def by_onnxruntime(self, model: Model) -> list[object]:
        return model.run(engines.OrtEngine, self.subject.feeds)[0]

    def by_demi(self, model: Model) -> list[object]:
        return demi.Session(model.data, threads=1).run(None, self.subject.feeds[0])

    def is_tie(self) -> bool:
        """Where the runtimes part, floats that agree lie between two steps of a quantized value: of a small network
        one step may be as much as all that quantizing loses."""
        proto = onnx.load_from_string(demi.run_passes(self.made.data, "infer-dtypes,infer-shapes{annotate=true}")[0])
        shown = [(n.input[0], n.output[0]) for n in proto.graph.node if n.op_type == "QuantizeLinear"]
        given = {v.name for v in [*proto.graph.input, *proto.graph.output]}
        proto.graph.output.extend(v for v in proto.graph.value_info if any(v.name in pair for pair in shown))
        model = Model(proto.SerializeToString())
        names = [v.name for v in model.proto.graph.output]
        a, b = (dict(zip(names, run(model))) for run in (self.by_onnxruntime, self.by_demi))
        for value, number in shown:
            apart = np.abs(a[number].astype(np.int64) - b[number].astype(np.int64))
            if apart.any():
                left, size = (0, 0) if value not in a else off(a[value], b[value])
                return bool(left <= EXACT * size and apart.max() == 1 and
                            np.count_nonzero(apart) <= 1 + apart.size // 50)
        return False

    def near(self, have: list[object]) -> str:
        other = self.by_demi(self.made)
        for i in self.counts:
            lost, size = off(have[i], self.want[i])
            apart, _ = off(have[i], other[i])
            if apart <= SHARE * lost + EXACT * size + 1e-7:
                continue
            source = self.by_demi(self.subject.source)  # which may be far off itself
            if not apart <= SHARE * lost + 2 * off(source[i], self.want[i])[0] and not self.is_tie():
                return (f"demi and ONNX Runtime: output {i} is {apart:.3g} apart, quantizing lost "
                        f"{lost:.3g} of {size:.3g}")
        return ""

    def stripped(self, lost: list[object]) -> str:
        model = self.subject.passes("infer-dtypes,strip-qdq", self.made).model
        if pairs(model) > pairs(self.subject.source):
            return "strip-qdq leaves pairs"
        have = self.by_onnxruntime(model)
        for i in self.counts:
            left, size = off(have[i], self.want[i])
            if not left <= 2 * off(lost[i], self.want[i])[0] + 0.02 * size + 1e-6:
                return f"strip-qdq: output {i} is {left:.3g} off, of {size:.3g}"
        return ""

    def finding(self) -> Finding:
        """Its error is the dB of the worst output that was quantized at all; 0: none was."""
        found = Finding(self.way, engine=engines.OrtEngine.name)
        if self.way in CALIBRATED and quantize(self.subject, self.way, 2) is not self.made:
            found.problem = "two threads make another file"
        elif self.made.check:
            found.problem = f"ONNX's check: {self.made.check}"
        else:
            have = self.by_onnxruntime(self.made)
            found.problem = self.near(have) or self.stripped(have)
            errors = [off(have[i], self.want[i]) for i in self.counts]
            found.error = min((20 * math.log10(size / lost) for lost, size in errors
                               if lost > EXACT * size > 0), default=0.0)
        return found


def judge(subject: Subject) -> Iterator[Finding]:
    if not all(isinstance(value, np.ndarray) for value in subject.feeds[0].values()):
        return
    try:
        want = subject.results(engines.OrtEngine)[0]
    except engines.CannotRun:
        return
    counts = [] if subject.jumps else [
        i for i, value in enumerate(want)
        if isinstance(value, np.ndarray) and value.dtype == np.float32 and value.size and
        subject.proto.graph.output[i].name not in subject.jumpy]
    if not all(np.isfinite(want[i]).all() for i in counts):
        return
    for way in WAYS:
        try:
            yield Quantized(subject, way, want, counts).finding()
        except engines.CannotRun as error:
            missing = any(word in str(error) for word in NO_KERNEL)
            yield Finding(way, "" if missing else str(error), skip=str(error))


def end(findings: list[tuple[str, Finding]]) -> list[str]:
    """Ways that lose more than they did."""
    found = []
    for way, least in LEAST.items():
        scores = [f.error for _, f in findings if f.what == way and f.error > 0]
        median = statistics.median(scores) if scores else math.inf
        if len(scores) >= FEW and median < least:
            found.append(f"{way}: {median:.1f} dB in the median of {len(scores)}, expected {least}")
    return found
