#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public function, constructor, method and setter of demi_onnx with junk for each of its parameters:
it works, or raises an exception that names the parameter or what it was given. Nothing crashes, and all works
as before afterwards.

What there is to call is found by looking: a new function, method, parameter or option is called without being
listed here. A required parameter of a new name needs a right value in VALID, a new class with methods an
example in EXAMPLES; the test says so.

    DEMI_LIBRARY=build/release/libdemi.so tools/suites/python_arguments_test.py [--every N] [--only TEXT]
"""

import argparse
import enum
import inspect
import io
import os
import pathlib
import signal
import sys
import tempfile
import threading
import warnings
from dataclasses import is_dataclass

import numpy as np
import onnx
from python_test import CONV, demi, matmul, unary

import demi_onnx.backend
import demi_onnx.compat.float16
import demi_onnx.onnxruntime as ours
from demi_onnx import _abi, _convert, _device, _stateful

MODULES = [demi, ours, demi_onnx.compat.float16, demi_onnx.backend]
PATIENCE_S = 60
DATA = unary("Relu").SerializeToString()
DENSE = matmul(4).SerializeToString()
X = np.array([[-1, 2, -3, 4]], np.float32)
FOLDER = tempfile.TemporaryDirectory()


def session() -> demi.Session:
    return demi.Session(DATA, threads=1)


def theirs() -> ours.InferenceSession:
    return ours.InferenceSession(DATA, providers=["CPUExecutionProvider"])


def carrier() -> _stateful.Stateful:
    return session().stateful({"y": "x"})


def trained_model() -> bytes:
    return demi.make_training(DENSE, loss="mse")


# Right values of required parameters, and of others where the default takes long; made anew for each call.
VALID = {
    "model": lambda: DENSE, "reference": lambda: DENSE, "a": lambda: DENSE, "b": lambda: DENSE,
    "path_or_bytes": lambda: DATA, "model_path": lambda: CONV, "out": lambda: None,
    "passes": lambda: "infer-dtypes", "path": lambda: CONV, "name": lambda: "x", "output_names": lambda: None,
    "input_feed": lambda: {"x": X}, "input_dict_ort_values": lambda: {"x": ours.OrtValue.ortvalue_from_numpy(X)},
    "carry": lambda: {"y": "x"}, "axis": lambda: 0, "length": lambda: 0, "array": lambda: X, "value": lambda: X,
    "pointer": lambda: 1 << 45, "shape": lambda: (1, 4), "dtype": lambda: np.float32, "element_type": lambda: np.float32,
    "duration": lambda: 0.0, "runs": lambda: 1, "warmup": lambda: 0, "evaluations": lambda: 1, "steps": lambda: 1,
    "callback": lambda: lambda *_: None, "user_data": lambda: None, "providers": lambda: ["CPUExecutionProvider"],
    "severity": lambda: 0, "verbosity": lambda: 0, "seed": lambda: 0, "key": lambda: "k", "options": lambda: {},
    "size": lambda: 4, "denotation": lambda: "d", "names": lambda: [], "values": lambda: [],
    "device_type": lambda: "cpu", "device_id": lambda: 0, "buffer_ptr": lambda: X.ctypes.data, "number": lambda: 0,
    "session": session, "device": lambda: "CPU", "inputs": lambda: [X], "node": lambda: unary("Relu").graph.node[0],
    "threads": lambda: 1, "i": lambda: 0, "op_type": lambda: "Neg", "outputs": lambda: 1, "text": lambda: "said",
    "function": lambda: len}
QUICK = {"duration", "runs", "warmup", "evaluations", "steps", "threads"}  # given, too, where they have defaults
# Where the same name is of another kind.
OF = {"train.model": trained_model,
      "train.data": lambda: {"x": np.ones((64, 4), np.float32), "labels": np.ones((64, 4), np.float32)},
      "prepare.model": lambda: unary("Relu"), "run_model.model": lambda: unary("Relu"),
      "DemiBackendRep.model": lambda: unary("Relu"), "DemiBackend.is_compatible.model": lambda: unary("Relu"),
      "run_with_iobinding.binding": lambda: None, "run_with_iobinding.iobinding": lambda: None,
      "bind_ortvalue_input.value": lambda: ours.OrtValue.ortvalue_from_numpy(X),
      "bind_ortvalue_output.value": lambda: ours.OrtValue.ortvalue_from_numpy(X), "register_pass.name": lambda: NAMES(),
      "OrtDevice.name": lambda: "cpu", "OrtDevice.make.name": lambda: "cpu", "value.name": lambda: "x", "config_entry.value": lambda: "v", "Report.why.name": lambda: "t",
      ".bind_output.name": lambda: "y", "bind_ortvalue_output.name": lambda: "y"}
EXAMPLES = {
    "Session": session, "InferenceSession": theirs, "IoBinding": lambda: session().io_binding(),
    "IOBinding": lambda: theirs().io_binding(), "Stateful": carrier, "Pipeline": lambda: demi.Pipeline("infer-dtypes"),
    "DeviceArray": lambda: demi.DeviceArray(1 << 45, (2,), "float32"),
    "Report": lambda: demi.describe(DENSE), "SearchResult": lambda: demi.search(DENSE, evaluations=1),
    "Comparison": lambda: demi.compare(DENSE, DENSE), "SessionOptions": ours.SessionOptions,
    "RunOptions": ours.RunOptions, "OrtValue": lambda: ours.OrtValue.ortvalue_from_numpy(X.copy()),
    "DeviceCounts": demi.DeviceCounts, "OrtDevice": lambda: ours.OrtDevice("cpu"), "DemiBackendRep": lambda: demi_onnx.backend.prepare(unary("Relu")),
    "DemiBackend": demi_onnx.backend.DemiBackend}


def NAMES() -> str:  # noqa: N802: as what it stands for
    """A pass's name that is not taken."""
    NAMES.count = getattr(NAMES, "count", 0) + 1
    return f"junk-{NAMES.count}"


class Hostile:
    """Raises whatever it is asked for."""

    def _raise(self, *_: object) -> object:
        raise ValueError("a hostile object")

    __index__ = __float__ = __len__ = __iter__ = __fspath__ = __array__ = __bool__ = __getitem__ = _raise
    __repr__ = _raise


def looped() -> list:
    loop: list = []
    loop.append(loop)
    return loop


def looped_mapping() -> dict:
    loop: dict = {}
    loop["x"] = loop
    return loop


JUNK = [
    lambda: None, lambda: True, lambda: -1, lambda: 1 << 64, lambda: 1 << 200, lambda: -(1 << 200), lambda: 1.5,
    lambda: float("nan"), lambda: "", lambda: "junk-text", lambda: "a\0junk", lambda: "\ud800junk", lambda: "\udcffjunk",
    lambda: b"", lambda: b"junk-bytes", lambda: b"\x08\x08", lambda: [], lambda: [None], lambda: ["junk-text"],
    looped, lambda: (1 << 70,), lambda: {}, lambda: {"x": None}, lambda: {1: 2}, lambda: {"a\0b": 1}, looped_mapping,
    object, lambda: int, lambda: Hostile, Hostile, lambda: len, lambda: np.zeros(0), lambda: np.ones((2, 3), np.complex128),
    lambda: np.array(["s"]), lambda: np.array([object()]), lambda: np.ma.masked_array(X, X > 0),
    lambda: np.zeros((1, 4), [("a", "i4")]), lambda: np.float32(1), lambda: np.int64(-1), onnx.ModelProto,
    lambda: (i for i in range(3)), lambda: io.StringIO("junk"), lambda: demi.DeviceArray(0, (0,), "float32"),
    lambda: onnx.TensorProto.FLOAT, lambda: X[:, ::-1], lambda: np.broadcast_to(X, (1 << 4, 1, 4))]


# What errors may name in place of a parameter.
ALSO = {"array": ["output 'y'"], "path_or_bytes": ["model"], "feeds": ["input 'x'"], "input_feed": ["input 'x'"],
        "input_dict_ort_values": ["input 'x'"],
        "inputs": ["demi has no kernel of it for"],
        "memory_budget": ["needs more memory than the limit"]}


def is_called(kind: object) -> bool:
    return inspect.isroutine(kind) or inspect.ismethod(kind)


class Target:
    """Something to call: `make` gives the callable of this call."""

    def __init__(self, label: str, make, signature: inspect.Signature) -> None:
        self.label, self.make = label, make
        self.parameters = [p for p in signature.parameters.values() if p.kind != p.VAR_POSITIONAL
                           and p.name not in ("self", "cls")]
        self.positional = any(p.kind == p.VAR_POSITIONAL for p in signature.parameters.values())

    def names(self) -> list[str]:
        found = [p.name for p in self.parameters if p.kind != p.VAR_KEYWORD]
        if any(p.kind == p.VAR_KEYWORD for p in self.parameters):
            if self.label.endswith((".convert", ".convert_policy", ".convert_pipeline")):
                found += [n for n in (*_abi.CHOICES, *_convert._LISTS, "opset", *_convert._PLAIN) if n not in found]
            elif self.label.endswith((".bench", "prepare", "run_model", "run_node")):
                found += [n for n in inspect.signature(demi.Session).parameters if n not in found]
            else:
                found.append("nothing")
        return found

    def valid(self, name: str):
        for key, make in OF.items():
            if f"{self.label}.{name}".endswith(key):
                return make
        return VALID.get(name)

    def arguments(self, junk_for: str) -> dict:
        given = {}
        for p in self.parameters:
            make = self.valid(p.name)
            if p.name == junk_for or p.kind == p.VAR_KEYWORD or (p.default is not p.empty and p.name not in QUICK):
                continue
            if make is None:
                raise LookupError(f"{self.label}: VALID has no right value of '{p.name}'")
            given[p.name] = make()
        return given


def signature_of(thing: object) -> inspect.Signature | None:
    try:
        return inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def of_instance(name: str, kind: type, problems: list[str]):
    """Methods and setters, of an example that is made for each call."""
    methods = [m for m in dir(kind) if (not m.startswith("_") or m == "__call__") and m not in dir(tuple)
               and is_called(inspect.getattr_static(kind, m)) | isinstance(inspect.getattr_static(kind, m),
                                                                           (staticmethod, classmethod))]
    setters = [m for m in dir(kind) if isinstance(inspect.getattr_static(kind, m), property)
               and inspect.getattr_static(kind, m).fset]
    targets = []
    for method in methods:
        signature = signature_of(getattr(kind, method))
        if signature and [p for p in signature.parameters if p not in ("self", "cls")]:
            targets.append(Target(f"{name}.{method}", lambda make, m=method: getattr(make(), m), signature))
    for setter in setters:
        signature = inspect.signature(lambda value: None).replace(
            parameters=[inspect.Parameter(setter, inspect.Parameter.POSITIONAL_OR_KEYWORD)])
        targets.append(Target(f"{name}.{setter}=", lambda make, m=setter: lambda **new: setattr(make(), m, new[m]), signature))
    if targets and name.rpartition(".")[2] not in EXAMPLES:
        problems.append(f"{name}: EXAMPLES has none of it")
        return []
    make = EXAMPLES.get(name.rpartition(".")[2])
    for target in targets:
        target.make = lambda of=target.make: of(make)
    return targets


# What onnxruntime has and demi does not: always refused.
REFUSED = {"onnxruntime.set_seed", "SessionOptions.add_external_initializers", "SessionOptions.add_initializer",
           "SessionOptions.add_free_dimension_override_by_denotation", "SessionOptions.register_custom_ops_library",
           }
# What right values of alone are not enough for: a run before, a plug-in, the same session's binding, all inputs.
NEEDS_MORE = {"demi_onnx.load_passes", "Stateful.cut", "Session.run_with_iobinding",
              "InferenceSession.run_with_iobinding", "demi_onnx.NodeArg", "onnxruntime.NodeArg",
              "RunOptions.get_run_config_entry", "SessionOptions.get_session_config_entry",
              "Session.__call__", "InferenceSession.__call__", "Stateful.__call__"}
IN_PASSES = {"Graph", "Node", "Value"}


def targets_of(problems: list[str]) -> list[Target]:
    found = []
    kinds = {_stateful.Stateful}
    for module in MODULES:
        short = module.__name__.rpartition(".")[2]
        for name in getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")]):
            thing = getattr(module, name)
            where = getattr(thing, "__module__", "") or ""
            if not where.startswith("demi_onnx") or not hasattr(module, "__all__") and where != module.__name__:
                continue
            if inspect.isclass(thing):
                if issubclass(thing, (BaseException, enum.Enum)):
                    continue
                kinds.add(thing)
                if thing.__name__ not in IN_PASSES and not is_dataclass(thing) and thing.__init__ is not object.__init__ and signature_of(thing):
                    found.append(Target(f"{short}.{name}", lambda t=thing: t, inspect.signature(thing)))
            elif callable(thing) and signature_of(thing):
                found.append(Target(f"{short}.{name}", lambda t=thing: t, inspect.signature(thing)))
    for kind in sorted(kinds, key=lambda k: (k.__module__, k.__name__)):
        if kind.__name__ not in IN_PASSES:
            found += of_instance(kind.__name__, kind, problems)
    return [t for t in found if t.names() and t.label not in REFUSED]


def names_it(name: str, junk: object, text: str) -> bool:
    """Whether an error's text names the parameter, or quotes what it was given, or a key of it. What a function
    raises that is called back is its own."""
    texts: list[str] = [form.removesuffix("s") for form in (name, name.replace("_", "-"), name.replace("_", " "))]
    if isinstance(junk, (str, bytes)) and junk:
        texts.append(repr(junk)[2:-1].strip("b'\""))
        texts.append(junk if isinstance(junk, str) else repr(junk))
    if isinstance(junk, (str, io.StringIO)):
        texts += ["junk" if junk != "" else "''"]
    if isinstance(junk, (dict, list)) or isinstance(junk, np.ndarray) and junk.dtype.kind == "U":
        texts += [form(item) for item in junk if isinstance(item, (str, int)) for form in (repr, lambda i: repr(str(i)))]
    words = name.split("_")
    return callable(junk) or all(word in text for word in words) or any(t and t in text for t in texts)


class Late(BaseException):
    """A call does not end."""


def late(*_: object) -> None:
    raise Late


def text_of(error: BaseException | None) -> str:
    """What the error says, and those that it came of."""
    text = ""
    while error is not None:
        try:
            text += f"{type(error).__name__}: {error}\n"
        except Exception:  # noqa: BLE001: what a hostile object raises within it
            text += f"{type(error).__name__} that cannot be shown\n"
        error = error.__cause__
    return text


def is_right(target: Target, problems: list[str]) -> bool:
    """Whether the call works with right values: only then junk is what a failure is about."""
    if target.label in NEEDS_MORE or target.label.endswith("="):
        return True
    try:
        made = target.make()(**target.arguments(""))
        if inspect.iscoroutine(made):
            made.close()
    except Exception as error:  # noqa: BLE001
        problems.append(f"{target.label} with right values: {text_of(error)}")
        return False
    return True


def try_one(target: Target, name: str, make_junk, problems: list[str]) -> None:
    junk = make_junk()
    shown = "a hostile object" if isinstance(junk, Hostile) else repr(junk)[:60]
    arguments = target.arguments(name)
    signal.alarm(PATIENCE_S)
    try:
        made = target.make()(**arguments, **{name: junk})
        if target.label.endswith("register_pass"):
            made(len)
        if inspect.iscoroutine(made):
            made.close()
    except Late:
        problems.append(f"{target.label}({name}={shown}) does not end")
    except Exception as error:  # noqa: BLE001: any is right that says what is wrong
        text = text_of(error)
        others = [*target.names(), "input 'x'"] if target.label in NEEDS_MORE else ALSO.get(name, [])
        if not names_it(name, junk, text) and not any(other in text for other in others):
            problems.append(f"{target.label}({name}={shown}): {text_of(error)}")
    finally:
        signal.alarm(0)


def try_in_passes(every: int, only: str, problems: list[str]) -> int:
    """Graph, Node and Value mean something within a pass alone: one run of a pass for each call."""
    job: list = []
    stale: list = []

    @demi.register_pass("junk-caller")
    def junk_caller(graph) -> None:
        node = next(graph.nodes)
        things = {"Graph": graph, "Node": node, "Value": node.inputs[1]}
        target, name, junk, kept = job.pop()
        stale[:] = things.values()
        given = {"inputs": [things["Value"]], "other": things["Value"], "value": 1,
                 **({"value": things["Value"]} if target.label == "Node.set_input" else {})}
        arguments = {p.name: given[p.name] if p.name in given else target.valid(p.name)()
                     for p in target.parameters
                     if p.name != name and p.default is p.empty and p.kind != p.VAR_KEYWORD}
        assert kept is None or name
        target.make(things[target.label.partition(".")[0]])(**arguments, **{name: junk})

    calls = 0
    for kind in (demi.Graph, demi.Node, demi.Value):
        EXAMPLES[kind.__name__] = lambda: None
        for target in of_instance(kind.__name__, kind, problems):
            method = target.label.partition(".")[2]
            target.make = (lambda thing, m=method[:-1]: lambda **new: setattr(thing, m, new[m])) if method.endswith("=") \
                else (lambda thing, m=method: getattr(thing, m))
            if only and only not in target.label:
                continue
            for name in target.names():
                others = [lambda: stale[0], lambda: stale[1], lambda: stale[2]] if stale else []
                for make_junk in [*JUNK, *others]:
                    calls += 1
                    if calls % every:
                        continue
                    junk = make_junk()
                    shown = "a hostile object" if isinstance(junk, Hostile) else repr(junk)[:60] \
                        if not isinstance(junk, (demi.Graph, demi.Node, demi.Value)) else f"a {type(junk).__name__} of another run"
                    job[:] = [(target, name, junk, None)]
                    try:
                        demi.run_passes(DENSE, "junk-caller", check=False)
                    except Exception as error:  # noqa: BLE001
                        if not names_it(name, junk, text_of(error)) and "has returned" not in text_of(error):
                            problems.append(f"{target.label}({name}={shown}): {text_of(error)}")
    return calls // every


def all_is_well(problems: list[str]) -> None:
    """Whatever the calls did, right ones do what they did."""
    if session().run(None, {"x": X})[0].tolist() != [[0, 2, 0, 4]]:
        problems.append("a session gives something else after all that")
    if len(demi.convert(DENSE)[0]) < 100 or not demi.describe(DENSE).nodes:
        problems.append("conversions do something else after all that")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--every", type=int, default=1, help="of all calls one in so many")
    parser.add_argument("--only", default="", help="what has this in its name")
    args = parser.parse_args()
    signal.signal(signal.SIGALRM, late)
    threading.excepthook = lambda _: None  # what callbacks of run_async raise is their own
    os.chdir(FOLDER.name)  # junk may be a path to write to
    warnings.simplefilter("ignore")
    problems: list[str] = []
    targets = targets_of(problems)
    calls = 0
    for target in targets:
        if args.only and args.only not in target.label:
            continue
        if not is_right(target, problems):
            continue
        for name in target.names():
            for make_junk in JUNK:
                calls += 1
                if calls % args.every == 0:
                    try_one(target, name, make_junk, problems)
    calls = calls // args.every + try_in_passes(args.every, args.only, problems)
    all_is_well(problems)
    for problem in dict.fromkeys(problems):
        print(problem.encode("utf-8", "backslashreplace").decode().strip().replace("\n", " | ")[:400])
    print(f"python_arguments_test: {len(targets)} functions, {calls} calls, {len(problems)} problems")
    return 1 if problems or calls < 50 else 0


if __name__ == "__main__":
    assert _device and pathlib
    sys.exit(main())
