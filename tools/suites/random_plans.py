# SPDX-License-Identifier: Apache-2.0
"""Runs seeded random models in demi's runtime beside ONNX Runtime and ONNX's reference evaluator.

The models are random_models.py's: bodies, functions, sequences, optionals, open sizes. Each is
compiled fast, faithful, and with every value kept; outputs lie within 1e-4 of the largest value,
integers are equal, and a second run gives the same bits. Where the two engines do not agree,
either may be right. ONNX Runtime drops pairs of casts to 16 bit and back: with 16-bit floats in the
model 5e-3 is allowed. Models with unseeded random operators are left out.
"""

import argparse
import collections
import contextlib
import pathlib
import sys
import time

import numpy as np
import onnx

import random_models
from suite import engines, metric, runtime, validity, walk, workers

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT, LIMIT_LOW = 1e-4, 5e-3
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
          "RandomUniformLike"}


def differs(got: object, want: object, limit: float) -> str:
    if want is None or got is None:
        return "" if got is want else f"{'empty' if got is None else 'not empty'}"
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return "a sequence of another length"
        texts = (differs(y, y0, limit) for y, y0 in zip(got, want))
        return next((text for text in texts if text), "")
    a, b = np.asarray(got), np.asarray(want)
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        return metric.compare(got, want, limit, "it")[1]
    finite = np.abs(b[np.isfinite(b)])
    error, text = metric.float_error(a, b, float(finite.max(initial=0)) or 1.0)
    return text or ("" if error <= limit else f"error {error:.3g}")


def same_bits(a: object, b: object) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same_bits, a, b))
    if a is None or b is None:
        return a is b
    return np.asarray(a).dtype.kind in "OUS" or np.asarray(a).tobytes() == np.asarray(b).tobytes()


def has_low(model: onnx.ModelProto) -> bool:
    """Does it cast to float16 or bfloat16, or hold either?"""
    low = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
    casts = any(a.name == "to" and a.i in low
                for n in walk.model_nodes(model) for a in n.attribute)
    return casts or any(isinstance(m, onnx.TensorProto) and m.data_type in low
                        for m in walk.messages(model))


def expected(model: onnx.ModelProto, feeds: dict[str, object]) -> list[list[object]]:
    """Of each engine that runs it."""
    data, found = model.SerializeToString(), []
    for engine in (engines.OrtEngine, engines.ReferenceEngine):
        with contextlib.suppress(engines.CannotRun):
            found.append(engine(data, model).run(feeds))
    return found


def make_runner(library: str, data: pathlib.Path):  # noqa: ANN201
    the = runtime.LibDemi(library)

    def variants(model: bytes):  # noqa: ANN202
        for name, numerics, keep, threads in (("fast", "fast", False, 1),
                                              ("fast, 4 threads", "fast", False, 4),
                                              ("faithful", "faithful", False, 1),
                                              ("kept", "faithful", True, 1)):
            yield name, runtime.PlanRunner(the, the.compile(model, numerics, keep), threads)

    def work(item: tuple[str, int]) -> tuple[str, str]:
        kind, seed = item
        sample = random_models.BUILDERS[kind](seed, data)
        if sample is None or validity.full_check(sample.model.SerializeToString()):
            return "no model", ""
        nodes = list(walk.model_nodes(sample.model))
        if any(n.op_type in RANDOM for n in nodes):
            return "random", ""
        limit = LIMIT_LOW if has_low(sample.model) else LIMIT
        wants = expected(sample.model, sample.feeds)
        if not wants:
            return "no engine runs it", ""
        names = [o.name for o in sample.model.graph.output]
        try:
            for variant, runner in variants(sample.model.SerializeToString()):
                got = runner.run(sample.feeds)
                for i, (name, y) in enumerate(zip(names, got)):
                    texts = [differs(y, want[i], limit) for want in wants]
                    text = "" if name in sample.jumpy or "" in texts else texts[0]
                    if text:
                        return "differs", f"{variant}: {name}: {text}"
                if not all(map(same_bits, got, runner.run(sample.feeds))):
                    return "differs", f"{variant}: another run gives other bits"
        except runtime.Failed as error:
            return "fails", str(error)
        return "agrees", ""

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--libdemi", required=True, help="demi's shared library")
    parser.add_argument("--kinds", default="graph,operator,style")  # `entries` is of no concern to plans
    parser.add_argument("--seeds", default="1:60", help="FROM:TO, TO not included")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/data/backend")
    parser.add_argument("--processes", type=int, default=2)
    args, start = parser.parse_args(), time.monotonic()
    first, last = map(int, args.seeds.split(":"))
    items = [(kind, seed) for kind in args.kinds.split(",") for seed in range(first, last)]
    counts: collections.Counter = collections.Counter()
    for (kind, seed), result, died in workers.run(items, make_runner, (args.libdemi, args.data),
                                                  args.processes):
        what, text = result or ("died", died)
        counts[what] += 1
        if what in ("differs", "fails", "died"):
            print(f"FAIL {kind}-{seed}: {what}: {text[:300]}", flush=True)
    bad = sum(counts[what] for what in ("differs", "fails", "died"))
    print(", ".join(f"{n} {what}" for what, n in counts.items()),
          f"in {time.monotonic() - start:.0f} s")
    if counts["agrees"] * 2 < len(items):
        sys.exit("random_plans: fewer than half the seeds were compared")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
