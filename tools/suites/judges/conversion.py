# SPDX-License-Identifier: Apache-2.0
"""A conversion is valid by ONNX's full check and strict inference wherever its source is, keeps the
input/output contract, metadata and opsets, and its report is true: every operator of the LOW class
that stays has a reason, and what is called low is. Totals over ONNX's models are those of
testdata/backend_totals.json (corpus_test.py --update rewrites it; review the diff).
"""

import collections
import json
import os
from collections.abc import Iterator

from judges import Finding, first
from suite import lowclass, preserve, validity
from suite.package import ROOT
from suite.subject import Made, Subject
from suite.variants import VARIANTS, Variant

GOLDEN = ROOT / "testdata/backend_totals.json"


def problems(subject: Subject, made: Made, variant: Variant) -> list[str]:
    source, model = subject.source, made.model
    found = validity.problems(model, source)
    found += validity.contract(model.proto, source.proto, variant)
    found += preserve.header(source.proto, model.proto, variant.to)
    return found + lowclass.problems(made.report, source.proto, model.inferred, variant.to)


def totals(made: Made, variant: Variant) -> dict[str, int]:
    """What the report counts."""
    low, kept = lowclass.counts(made.report, variant.to)
    found = {f"low {op}": n for op, n in low.items()} | {f"kept {op}": n for op, n in kept.items()}
    for part in ("casts", "bytes", "values"):
        found |= {f"{part} {key}": n for key, n in made.report[part].items()}
    return found | {"io left float32": validity.float_tensors(made.model.proto.graph)}


def judge(subject: Subject) -> Iterator[Finding]:
    for variant in VARIANTS:
        made = subject.convert(variant)
        yield Finding(str(variant), first(problems(subject, made, variant)),
                      totals=totals(made, variant))


def end(findings: list[tuple[str, Finding]]) -> list[str]:
    """Differences of the totals from the checked-in ones."""
    sums: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for _, finding in findings:
        sums[finding.what].update(finding.totals)
        sums[finding.what]["models"] += 1
    now = {what: dict(sorted(counts.items())) for what, counts in sorted(sums.items())}
    if "DEMI_UPDATE" in os.environ:
        GOLDEN.write_text(json.dumps(now, indent=1) + "\n")
    golden = json.loads(GOLDEN.read_text())
    return [f"totals: {what}: {key} {now.get(what, {}).get(key, 0)}, expected "
            f"{golden.get(what, {}).get(key, 0)}" for what in sorted({*now, *golden})
            for key in sorted({*golden.get(what, {}), *now.get(what, {})})
            if now.get(what, {}).get(key, 0) != golden.get(what, {}).get(key, 0)]
