# SPDX-License-Identifier: Apache-2.0
"""The command makes what the library makes, of one subject in EVERY: users start it. Files and plans are
the same bytes, reports say the same, exit codes are 0, and a run of the published data passes.
"""

import functools
import pathlib
import tempfile
from collections.abc import Iterator

from judges import Finding, first
from suite.command import Demi
from suite.package import ROOT, demi
from suite.subject import Made, Subject
from suite.variants import VARIANTS, Variant

EVERY = 20


@functools.cache
def command() -> Demi:
    """This process's, with a folder of its own, which lasts as long."""
    folder = tempfile.TemporaryDirectory(prefix="demi-corpus-")
    made = Demi(str(ROOT / "build/release/demi"), pathlib.Path(folder.name))
    made.kept = folder
    return made


def reports_differ(said: dict, made: Made) -> str:
    for part in ("casts", "bytes", "values", "placement"):
        want = made.report[part]
        if {key: said[part].get(key) for key in want} != want:
            return f"{part}: {said[part]}, the library says {want}"
    keys = ("name", "op_type", "dtype", "reason", "kind")
    got, want = ([tuple(node.get(k, "") for k in keys) for node in nodes]
                 for nodes in (said["nodes"], made.report["nodes"]))
    return "" if got == want else "nodes: not as the library says"


def convert(the: Demi, path: pathlib.Path, variant: Variant, made: Made) -> str:
    run, out = the.convert(str(path), variant)
    if run.code:
        return run.problem()
    return "other bytes than the library's" if out != made.model.data else reports_differ(run.report, made)


def judge(subject: Subject) -> Iterator[Finding]:
    if subject.number % EVERY:
        return
    the = command()
    path, low = (the.folder / name for name in ("model.onnx", "low.onnx"))
    path.write_bytes(subject.source.data)
    made = [subject.convert(variant) for variant in VARIANTS]
    for variant, one in zip(VARIANTS, made):
        yield Finding(f"convert {variant}", convert(the, path, variant, one))
    low.write_bytes(made[0].model.data)
    run, out = the.opt(str(low), "strip-casts")
    yield Finding("opt strip-casts", run.problem() if run.code else
                  "" if out == subject.passes("strip-casts", made[0].model).model.data else
                  "other bytes than the library's")
    for what, words in (("check", ("check", low)), ("check --against", ("check", low, "--against", path)),
                        ("diff", ("diff", path, path)), ("show", ("show", path))):
        run = the.run(*map(str, words))
        excused = what == "check" and subject.source.fault
        yield Finding(what, "" if run.code == 0 or excused else run.problem())
    yield from runs(the, subject, path)
    for file in the.folder.iterdir():
        file.unlink()


def runs(the: Demi, subject: Subject, path: pathlib.Path) -> Iterator[Finding]:
    """What compiles in the library does in the command, to the same plan, and runs."""
    plan = path.with_suffix(".plan")
    run = the.run("compile", str(path), "-o", str(plan), "-q")
    try:
        want = demi.compile(subject.source.data)
    except demi.DemiError:
        yield Finding("compile", "" if run.code == 1 else "the library refuses it")
        return
    yield Finding("compile", run.problem() if run.code else
                  "" if plan.read_bytes() == want else "other bytes than the library's")
    if subject.kind == "backend" and not subject.draws:
        ends = [the.run("run", str(plan), "--data", str(data))
                for data in sorted(subject.folder.glob("test_data_set_*"))]
        yield Finding("run --data", first([run.problem() for run in ends if run.code]))
