# SPDX-License-Identifier: Apache-2.0
"""Mutants of conversions beside their source: what `check --against` lets pass is a valid model
that computes what the conversion does.

A random model is converted, opsets raised where that helps; it must be its source but for
precision. Then mutants of it (mutate.py) are checked against the source.
"""

import pathlib

import numpy as np
import onnx

from suite import check_reasons, mutate, random_graphs, random_styles, validity
from suite.command import VARIANTS, Demi

MUTANTS = 12
# A cast more, or a weight in the other 16-bit type, is a matter of precision.
PRECISION = {"cast_added", "body_cast", "tensor_retyped", "declared_element"}


class MutantJudge:
    """What is wrong with the mutants of one seed's model; counts are kept for the last line."""

    def __init__(self, demi: Demi) -> None:
        self.demi, self.reasons = demi, check_reasons.load()
        self.source, self.made, self.path = (demi.folder / n for n in (
            "source.onnx", "converted.onnx", "mutant.onnx"))

    def __call__(self, seed: int) -> tuple[int, int, list[str]]:
        """(mutants, those that pass, problems)."""
        sample = (random_styles if seed % 2 else random_graphs).build(seed)
        if sample is None or validity.strict_inference(sample.model)[0]:
            return 0, 0, []
        data = sample.model.SerializeToString()
        variant = VARIANTS[seed // 2 % len(VARIANTS)]
        if validity.full_check(data):
            return 0, 0, []
        self.source.write_bytes(data)
        run, out = self.demi.convert(str(self.source), variant)
        if out is None:
            return 0, 0, [f"{seed} {variant}: {run.problem()}"]
        self.made.write_bytes(out)
        whole = self.against(self.made)
        found = [f"{seed} {variant}: {whole}"] if whole else []
        count = passed = 0
        rng, model = np.random.default_rng(seed), onnx.load_from_string(out)
        for _ in range(MUTANTS):
            made = mutate.mutant(rng, model)
            if not made or made[1] == model:
                continue
            self.path.write_bytes(made[1].SerializeToString())
            count += 1
            if self.against(self.path):
                continue
            passed += 1
            problem = self.problem(*made)
            if problem:
                found.append(f"{seed} {variant}, {made[0]}: {problem}")
        return count, passed, found

    def against(self, path: pathlib.Path) -> str:
        run = self.demi.run("check", str(path), "--against", str(self.source), "--quiet")
        return run.problem() if run.code else ""

    def problem(self, what: str, model: onnx.ModelProto) -> str:
        data = model.SerializeToString()
        text = validity.full_check(data) or validity.strict_inference(model)[0]
        fault = check_reasons.cause(text)
        if fault and not check_reasons.find(self.reasons, "ONNX",
                                            fault + check_reasons.notes(model)):
            return f"passes, and ONNX says: {fault}"
        if fault or what in PRECISION:
            return ""
        run = self.demi.run("compare", str(self.made), str(self.path), "--random", "1",
                            "--max-error", "0")
        return "passes, and computes something else" if run.code == 1 and not run.stderr else ""
