# SPDX-License-Identifier: Apache-2.0
"""Converts, rewrites, and describes models."""

from __future__ import annotations

import ctypes
import json
from ctypes import byref
from dataclasses import dataclass
from typing import Any, Mapping, Sequence, overload

from . import _abi
from . import _abi_constants as _codes
from ._arguments import checked, take, take_limit
from ._errors import ModelError, UsageError, text_of
from ._lib import Guard, call, encode, lib
from ._models import (Data, Folder, Handle, Inputs, Model, ModelProto, Path, Pointer, Progress, Source,
                      Writer, choice, inputs_how, print_text, progress_callback, save_like, set_sizes, text_list,
                      texts, write_file)
from ._passes import passes_pointer
from ._report import Report, Verdict, report_of, verdict_of
from ._share import context_options, current

# What of DemiConvertOptions is a plain text, number or truth: a new setting needs no line here.
_KINDS = {ctypes.c_char_p: "str", ctypes.c_int64: "int64", ctypes.c_bool: "bool"}
_PLAIN = {name: _KINDS[kind] for name, kind, *_ in _abi.DemiConvertOptions._fields_
          if kind in _KINDS and name != "opset"}
_ISAS = {"native": _codes.DEMI_ISA_NATIVE, "none": _codes.DEMI_ISA_NONE,
         "portable": _codes.DEMI_ISA_PORTABLE, "avx2": _codes.DEMI_ISA_AVX2, "avx512": _codes.DEMI_ISA_AVX512}
_OPSETS = {"auto": _codes.DEMI_OPSET_AUTO, "keep": _codes.DEMI_OPSET_KEEP}

_LISTS = {**_abi.LISTS, "fed": "fed_count"}  # of policies, and what is not said in one


class ConvertOptions:
    """DemiConvertOptions from keyword arguments: the names of its members, with choices as words."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.value = _abi.DemiConvertOptions()
        self._kept: list[Any] = []
        for name, value in given.items():
            if value is not None:
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if name in _abi.CHOICES:
            setattr(self.value, name, choice(_abi.CHOICES[name], value, name))
        elif name in _LISTS:
            self.set_list(name, text_list(value, name))
        elif name == "opset":
            self.value.opset = (choice(_OPSETS, value, name) if isinstance(value, str)
                                else take(name, "int64", value))
        elif name in _PLAIN:
            taken = take(name, _PLAIN[name], value)
            self.value.put(name, encode(taken) if isinstance(taken, str) else taken)
        else:
            known = [*_abi.CHOICES, *_LISTS, "opset", *_PLAIN]
            raise UsageError(f"there is no option {name!r}", hint=f"options are: {', '.join(known)}")

    def set_list(self, name: str, items: Sequence[str]) -> None:
        self._kept.append(texts(items))
        setattr(self.value, name, self._kept[-1])
        setattr(self.value, _LISTS[name], len(items))

    @property
    def ref(self) -> Any:
        return byref(self.value)


class _Runs:
    """The runs of a conversion: calibration before it, and verification or a search for nodes to keep
    after it."""

    def __init__(self, model: Model, name: str, data: Data, how: Mapping[str, Any], threads: int,
                 progress: Progress | None, data_root: Folder | None) -> None:
        self._guard = Guard()
        self._source = Source(model, data_root)
        self._inputs = Inputs(data, name=name, **how)
        self._progress = progress_callback(progress, self._guard)
        share = current()
        self._options = _abi.DemiTrialOptions(inputs=self._inputs.pointer, progress=self._progress,
                                              context=context_options(threads, share))
        if share is not None:
            share.set_options(self._options, self._guard)
        self._trials = ctypes.c_void_p()

    def __enter__(self) -> "_Runs":
        try:
            call(lib.demi_trials_new, self._source.ref, byref(self._options), byref(self._trials),
                 guard=self._guard)
        except BaseException:
            lib.demi_trials_free(self._trials)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        lib.demi_trials_free(self._trials)

    def calibrate(self, options: ConvertOptions, method: str) -> None:
        """Adds the calibration ranges to the options."""
        quantizes = options.value.to in (_codes.DEMI_TO_INT8, _codes.DEMI_TO_FP8)
        chosen = choice(_METHODS, method, "calibration")
        how = _abi.DemiCalibrateOptions(ends=quantizes)  # a 16-bit type needs the largest values alone
        if quantizes:
            how.method = chosen
            how.convert = ctypes.pointer(options.value)
            how.symmetric = options.value.symmetric
            how.equalizes = True
            if options.value.to == _codes.DEMI_TO_FP8:
                how.type = _codes.DEMI_FLOAT8E4M3FN
        ranges = ctypes.c_void_p()
        try:
            call(lib.demi_trials_calibrate, self._trials, byref(how), byref(ranges), guard=self._guard)
            found = lib.demi_ranges_texts(ranges)
            items = [text_of(found[i]) for i in range(lib.demi_ranges_count(ranges))]
            count = ctypes.c_size_t()
            chosen_scales = lib.demi_ranges_scales(ranges, byref(count))
            scales = [text_of(chosen_scales[i]) for i in range(count.value)]
        finally:
            lib.demi_ranges_free(ranges)
        if scales:
            options.set_list("channel_scales", scales)
        old = options.value
        options.set_list("ranges", [text_of(old.ranges[i]) for i in range(old.range_count)] + items)

    def round(self, options: ConvertOptions, rounded: ctypes.c_void_p) -> None:
        """Makes the weights that the conversion is to store, rounded by GPTQ."""
        options.value.rounding = _codes.DEMI_ROUNDING_GPTQ
        call(lib.demi_trials_round, self._trials, options.ref, byref(rounded), guard=self._guard)

    def verify(self, options: ConvertOptions, most: float | None) -> Verdict:
        """Returns the verdict on the conversion; with `most`, on the one that keeps the nodes that it must,
        which are then in the options."""
        verdict = ctypes.c_void_p()
        try:
            if most is None:
                call(lib.demi_trials_run, self._trials, options.ref, byref(verdict), guard=self._guard)
            else:
                call(lib.demi_trials_search, self._trials, options.ref, most, byref(verdict),
                     guard=self._guard)
            made = verdict_of(verdict)
            count = ctypes.c_size_t()
            keep = lib.demi_verdict_keep(verdict, byref(count))
            if count.value:
                options.set_list("keep", [text_of(keep[i]) for i in range(count.value)])
                options.value.allow_unmatched = True
        finally:
            lib.demi_verdict_free(verdict)
        if made.broken:
            raise ModelError("the converted model computes NaN or infinity, but the original has numbers",
                             hint="pass calibrate=data, which keeps values that are too large in float32, "
                                  "or to='bfloat16'")
        return made


_METHODS = {"minmax": 0, "percentile": 1, "mse": 2, "best": 3}
_WEIGHTS_ALONE = (_codes.DEMI_TO_INT8_WEIGHTS, _codes.DEMI_TO_INT4_WEIGHTS, _codes.DEMI_TO_INT2_WEIGHTS,
                  _codes.DEMI_TO_FP8_WEIGHTS, _codes.DEMI_TO_MXFP8_WEIGHTS, _codes.DEMI_TO_MXFP4_WEIGHTS,
                  _codes.DEMI_TO_NVFP4_WEIGHTS, _codes.DEMI_TO_INT8_DYNAMIC)


def _rounds(options: ConvertOptions, calibrate: Data) -> bool:
    """Whether to round weights on the data: if asked for, or by default if the data is not random."""
    if options.value.rounding or '"rounding"' in text_of(options.value.policy):
        return bool(json.loads(_asked(lib.demi_convert_policy, options))["rounding"] == "gptq")
    random = isinstance(calibrate, str) and calibrate == "random"
    return options.value.to in _WEIGHTS_ALONE and not random


def _save(model: Pointer, original: Model, out: Path | None) -> Any:
    if out is not None:
        call(lib.demi_save_file, model, encode(out), None)
        return None
    return save_like(model, original)


@overload
def convert(model: Model, out: Path, *, to: str = ..., verify: Data = ..., max_error: float | None = ...,
            calibrate: Data = ..., calibration: str = ..., inputs: Mapping[str, Any] | None = ...,
            threads: int = ..., progress: Progress | None = ..., data_root: Folder | None = ...,
            **options: Any) -> Report: ...
@overload
def convert(model: bytes, out: None = ..., *, to: str = ..., verify: Data = ...,
            max_error: float | None = ..., calibrate: Data = ..., calibration: str = ...,
            inputs: Mapping[str, Any] | None = ..., threads: int = ..., check: bool = ...,
            progress: Progress | None = ..., data_root: Folder | None = ..., **options: Any) -> tuple[bytes, Report]: ...
@overload
def convert(model: Model, out: None = ..., *, to: str = ..., verify: Data = ...,
            max_error: float | None = ..., calibrate: Data = ..., calibration: str = ...,
            inputs: Mapping[str, Any] | None = ..., threads: int = ..., check: bool = ...,
            progress: Progress | None = ..., data_root: Folder | None = ..., **options: Any) -> tuple[Any, Report]: ...
@checked
def convert(model: Model, out: Path | None = None, *, to: str = "float16", verify: Data = None,
            max_error: float | None = None, calibrate: Data = None, calibration: str = "best",
            inputs: Mapping[str, Any] | None = None, threads: int = 0, check: bool = True,
            progress: Progress | None = None, data_root: Folder | None = None, **options: Any) -> Any:
    """Converts a model to mixed precision, or quantizes it.

    With `out`, a path, writes the result there and returns the Report. From path to path, the whole model
    is never loaded into memory. Without `out`, returns (model, Report). The model has the same type as
    the argument (bytes for a path), which does not change.

    `to` is float16, bfloat16, float32, int8 or fp8 (with `calibrate`), int8-dynamic, int8-weights, int4-weights,
    int2-weights, fp8-weights, mxfp8-weights, mxfp4-weights, nvfp4-weights, float16-weights, or
    bfloat16-weights. With quantization, `rest` is the type of everything else: keep,
    float32, float16, bfloat16, or int8-weights. `source` is any or float32. `runtime` is one whose
    rules quantization follows: any, onnxruntime, openvino, tensorrt, qnn, or demi. `io` is keep or low. `keep` and `keep_ops` name nodes and operators to keep in float32, and `only` names the
    only nodes to convert. `policy` is JSON, or the name of a built-in policy. Further options are the
    members of DemiConvertOptions.

    `calibrate` and `verify` are "random", a path of inputs, arrays by name, or a list of such sets. The
    model runs on them: before the conversion to measure calibration ranges, and after it to measure errors.
    For weight-only quantization, `calibrate` rounds weights by GPTQ; with "random", only if `rounding` is gptq.
    `calibration` is minmax, percentile, mse, or best. `max_error` keeps nodes in float32 until no output's
    error exceeds it, relative to the output's largest magnitude. `inputs` sets how to generate random
    inputs: seed=, sets=, dims={name: size}, shapes={name: shape}. `threads` is the number of threads of
    these runs; 0 means all CPUs. `check` is as in `run_passes`.

    `progress(what, done, total)` is called between steps. If it returns False or raises an exception, the
    call ends."""
    chosen = ConvertOptions({"to": to, **options})
    how = _RunsHow(inputs_how(inputs), threads, progress, data_root)
    rounded = ctypes.c_void_p()
    guard = Guard()
    raw = ctypes.c_void_p()
    try:
        if calibrate is not None:
            _calibrate(model, chosen, calibrate, calibration, how, rounded)
        run = _abi.DemiRunOptions(unchecked=not check, progress=progress_callback(progress, guard),
                                  passes=passes_pointer(), rounded=rounded)
        chosen.value.run = ctypes.pointer(run)
        verdict = _verify(model, chosen, verify, max_error, how)
        run.runs_here = calibrate is not None or verdict is not None
        with Handle(model, data_root) as handle:
            call(lib.demi_convert, handle, chosen.ref, byref(raw), guard=guard)
            report = report_of(raw, verdict)
            made = _save(handle, model, out)
    finally:
        lib.demi_report_free(raw)
        lib.demi_rounded_free(rounded)
    return report if out is not None else (made, report)


@dataclass(frozen=True)
class _RunsHow:
    inputs: Mapping[str, Any]
    threads: int
    progress: Progress | None
    data_root: Folder | None

    def runs(self, model: Model, name: str, data: Data) -> _Runs:
        return _Runs(model, name, data, self.inputs, self.threads, self.progress, self.data_root)


def _calibrate(model: Model, chosen: ConvertOptions, data: Data, method: str, how: _RunsHow,
               rounded: ctypes.c_void_p) -> None:
    with how.runs(model, "calibrate", data) as runs:
        if _rounds(chosen, data):
            runs.round(chosen, rounded)
        if chosen.value.to not in _WEIGHTS_ALONE:
            runs.calibrate(chosen, method)


def _verify(model: Model, chosen: ConvertOptions, data: Data, max_error: float | None, how: _RunsHow) -> Verdict | None:
    if data is None and max_error is None:
        return None
    with how.runs(model, "verify", data) as runs:
        return runs.verify(chosen, None if max_error is None else take_limit(max_error))


def measure(model: Model, *, to: str = "float16", verify: Data = None, max_error: float | None = None,
            calibrate: Data = None, calibration: str = "best", inputs: Mapping[str, Any] | None = None,
            check: bool = True, data_root: Folder | None = None, **options: Any) -> list[str]:
    """Runs what `convert` runs before it converts, and returns the calibration ranges: for the processes that share
    that work, of which one converts."""
    chosen = ConvertOptions({"to": to, **options})
    how = _RunsHow(inputs_how(inputs), 0, None, data_root)
    rounded = ctypes.c_void_p()
    try:
        if calibrate is not None:
            _calibrate(model, chosen, calibrate, calibration, how, rounded)
        run = _abi.DemiRunOptions(unchecked=not check, passes=passes_pointer(), rounded=rounded)
        chosen.value.run = ctypes.pointer(run)
        _verify(model, chosen, verify, max_error, how)
        return [text_of(chosen.value.ranges[i]) for i in range(chosen.value.range_count)]
    finally:
        lib.demi_rounded_free(rounded)


def convert_policy(**options: Any) -> str:
    """Returns the complete policy of these options of `convert` as JSON, for the option `policy`."""
    return _asked(lib.demi_convert_policy, ConvertOptions(options))


def convert_pipeline(**options: Any) -> str:
    """Returns the passes that `convert` runs for these options, for `run_passes`."""
    return _asked(lib.demi_convert_pipeline, ConvertOptions(options))


def _asked(function: Any, options: ConvertOptions) -> str:
    error = _abi.DemiError()
    size = function(options.ref, None, 0, byref(error))
    if not size:
        from ._errors import error_of
        raise error_of(error.status, error)
    room = ctypes.create_string_buffer(size + 1)
    function(options.ref, room, size + 1, byref(error))
    return text_of(room.value)


@checked
def run_passes(model: Model, passes: "str | Pipeline | Sequence[str]", out: Path | None = None, *,
               verify_each: bool = False, check: bool = True, print: Any = None,
               progress: Progress | None = None, data_root: Folder | None = None) -> Any:
    """Runs passes in order, such as "infer-dtypes,insert-casts{to=float16}" or a list of these. Returns the
    same as `convert`.

    With `check`, a model that `demi.check` refuses is repaired or refused, before and after the passes;
    with `verify_each`, after each pass. `print` is called with the text that the print pass writes."""
    pipeline = (str(passes) if isinstance(passes, (str, Pipeline))
                else ",".join(text_list(passes, "passes")))
    guard = Guard()
    run = _abi.DemiRunOptions(verify_each=verify_each, unchecked=not check,
                              progress=progress_callback(progress, guard), passes=passes_pointer())
    if print is not None:
        def say(_: int, data: int, size: int) -> bool:
            print(ctypes.string_at(data, size).decode(errors="replace"))
            return True
        run.text = _abi.DemiWriteFn(guard.wrap(say, False))
    raw = ctypes.c_void_p()
    with Handle(model, data_root) as handle:
        try:
            call(lib.demi_run_pipeline, handle, encode(pipeline), byref(run), byref(raw), guard=guard)
            report = report_of(raw)
        finally:
            lib.demi_report_free(raw)
        made = _save(handle, model, out)
    return report if out is not None else (made, report)


@checked
def simplify(model: Model, out: Path | None = None, *, inexact: bool = False, strip_doc_strings: bool = False,
             shapes: Mapping[str, Sequence[int]] | None = None, dims: Mapping[str, int] | None = None,
             freeze_inputs: bool = False, fed: Sequence[str] = (), verify_each: bool = False,
             check: bool = True, progress: Progress | None = None, data_root: Folder | None = None) -> Any:
    """Simplifies a model: computes what is constant, and removes redundant nodes. Results are bit-identical.
    Returns the same as `convert`.

    `inexact` also makes changes that may round differently, such as folding batch normalizations into
    convolutions. `strip_doc_strings` also removes doc strings and metadata of nodes and values. `shapes`
    fixes the sizes of inputs by name, and `dims` fixes dynamic sizes by their names in the model.
    `freeze_inputs` turns inputs with default values into constants, except those in `fed`; before IR
    version 4, that always happens. `check` and `verify_each` are as in `run_passes`."""
    guard = Guard()
    run = _abi.DemiRunOptions(verify_each=verify_each, unchecked=not check,
                              progress=progress_callback(progress, guard), passes=passes_pointer())
    how = _abi.DemiSimplifyOptions(inexact=inexact, strip_doc_strings=strip_doc_strings, run=ctypes.pointer(run),
                                   freeze_inputs=freeze_inputs)
    how.fed, how.fed_count = texts(text_list(fed, "fed")), len(fed)
    set_sizes(how, dims, shapes)
    raw = ctypes.c_void_p()
    with Handle(model, data_root) as handle:
        try:
            call(lib.demi_simplify, handle, byref(how), byref(raw), guard=guard)
            report = report_of(raw)
        finally:
            lib.demi_report_free(raw)
        made = _save(handle, model, out)
    return report if out is not None else (made, report)


class Pipeline:
    """Passes with their options, which can run on any number of models.

        Pipeline("infer-dtypes", ("insert-casts", {"to": "bfloat16"}))(model)
    """

    def __init__(self, *passes: str | tuple[str, Mapping[str, Any]]) -> None:
        self._passes = [self._text(item) for item in passes]

    @staticmethod
    def _value(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (list, tuple)):
            return "[" + ",".join(Pipeline._value(item) for item in value) + "]"
        if isinstance(value, int):
            return str(value)
        return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'

    @classmethod
    def _text(cls, item: str | tuple[str, Mapping[str, Any]]) -> str:
        if isinstance(item, str):
            return item
        name, options = item
        given = ",".join(f"{key.replace('_', '-')}={cls._value(value)}"
                         for key, value in options.items())
        return f"{name}{{{given}}}" if given else name

    def __str__(self) -> str:
        return ",".join(self._passes)

    def __call__(self, model: Model, out: Path | None = None, **how: Any) -> Any:
        return run_passes(model, str(self), out, **how)


# ---- looking -------------------------------------------------------------------------------------------


@checked
def describe(model: Model, *, data_root: Folder | None = None) -> Report:
    """Describes a model: a Report in which before and after are the same."""
    raw = ctypes.c_void_p()
    with Handle(model, data_root) as handle:
        call(lib.demi_describe, handle, byref(raw))
        try:
            return report_of(raw)
        finally:
            lib.demi_report_free(raw)


@checked
def show(model: Model, *, full: bool = False, data_root: Folder | None = None) -> str:
    """Returns the model as text. With `full`, it has all elements of constants, and can be read back."""
    with Handle(model, data_root) as handle:
        return print_text(handle, full)


@checked
def check(model: Model, *, against: Model | None = None, made_by: Mapping[str, Any] | None = None,
          data_root: Folder | None = None) -> list[str]:
    """Raises a ModelError if the model is not valid.

    With `against`, a reference, returns the differences from it that are not differences of precision,
    one line per difference. An empty list means that the model is the reference except for precision. With
    `made_by`, options of `convert`, the model must also be what these options make of the reference."""
    if made_by is not None and against is None:
        raise UsageError("made_by requires a reference", hint="pass `against`")
    how = _abi.DemiAgainstOptions()
    if made_by is not None:
        options = ConvertOptions(made_by)
        how.made_by = ctypes.pointer(options.value)
    found: list[str] = []
    with Handle(model, data_root) as handle:
        call(lib.demi_check, handle)
        if against is not None:
            guard = Guard()

            def see(_: int, difference: bytes) -> bool:
                found.append(text_of(difference))
                return True

            source = Source(against, data_root, "against")
            call(lib.demi_against, handle, source.ref, byref(how),
                 _abi.DemiAgainstFn(guard.wrap(see, False)), None, guard=guard)
    return found


@dataclass(frozen=True)
class Difference:
    """A difference between two models: a node, input, weight, …"""

    kind: str
    change: str
    graph: str
    name: str
    op_type: str
    what: str
    a: str
    b: str


_CHANGES = ("removed", "added", "changed")


@checked
def diff(a: Model, b: Model, *, strict: bool = False, data_root: Folder | None = None) -> list[Difference]:
    """Returns the differences between two models; with `strict`, in anything in the files."""
    found: list[Difference] = []
    guard = Guard()

    def see(_: int, pointer: Any) -> bool:
        raw = pointer.contents
        found.append(Difference(text_of(lib.demi_diff_kind_name(raw.kind)), _CHANGES[raw.change],
                                text_of(raw.graph), text_of(raw.name), text_of(raw.op_type),
                                text_of(raw.what), text_of(raw.a), text_of(raw.b)))
        return True

    options = _abi.DemiDiffOptions(strict=strict)
    with Handle(a, data_root, "a") as first, Handle(b, data_root, "b") as second:
        call(lib.demi_diff, first, second, byref(options), _abi.DemiDiffFn(guard.wrap(see, False)),
             None, guard=guard)
    return found


@checked
def compile(model: Model, out: Path | None = None, *, numerics: str = "fast", keep_values: bool = False,
            small: bool = False, device: str = "cpu", isa: str = "native", memory_budget: int = 0,
            data_root: Folder | None = None) -> bytes | None:
    """Compiles a model to an execution plan, which `Session` and `demi run` open immediately. Writes it to
    the file `out`, or returns it as bytes.

    `numerics` is "fast" or "faithful". `keep_values` fuses nothing. `small` keeps 16-bit values in 16-bit.
    `isa` is the instruction set that weights are packed for: "native" (that of this machine), "none",
    "portable", "avx2", or "avx512". `device` is "cpu" or "cuda". `memory_budget` is the most bytes for what
    is computed in advance."""
    from ._session import NUMERICS
    if memory_budget < 0:
        raise UsageError("memory_budget must not be negative")
    options = _abi.DemiCompileOptions(numerics=choice(NUMERICS, numerics, "numerics"),
                                      keep_values=keep_values, small=small, isa=choice(_ISAS, isa, "isa"),
                                      memory_budget=memory_budget, for_device=device != "cpu")
    guard = Guard()
    writer = Writer(guard)
    with Handle(model, data_root) as handle:
        call(lib.demi_compile, handle, byref(options), writer.callback, None, guard=guard)
    if out is None:
        return writer.bytes()
    write_file(out, writer.bytes())
    return None


__all__ = ["ConvertOptions", "Difference", "ModelProto", "Pipeline", "check", "compile", "convert",
           "convert_pipeline", "convert_policy", "describe", "diff", "run_passes", "show"]
