# SPDX-License-Identifier: Apache-2.0
"""Training: a model with a training_info, on arrays of samples."""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from . import _abi
from . import _abi_constants as _codes
from ._errors import UsageError
from ._lib import Guard, call, encode, lib
from ._models import Handle, Model, Path, save_like
from ._values import value_of


@dataclass(frozen=True)
class TrainStep:
    """A step that was just made: its number and that of all, from 1 on; the epoch, from 1 on; the loss
    before its update; the scale that the next step's loss has, 0 where it has none; seconds since the
    first step, and samples a second by then."""

    step: int
    steps: int
    epoch: int
    loss: float
    scale: float
    seconds: float
    samples_per_second: float


@dataclass(frozen=True)
class Trained:
    """What a training came to: the steps behind the model, those of a checkpoint counted, the last loss
    (NaN without a step), the time, and whether `progress` ended it."""

    steps: int
    loss: float
    seconds: float
    samples_per_second: float
    ended_early: bool


def _step_callback(progress: Callable[[TrainStep], Any] | None, guard: Guard) -> Any:
    """A DemiTrainFn; there is always one, so that Ctrl-C is noticed between steps."""

    def report(_: int, step: Any) -> bool:
        if progress is None:
            return True
        told = step.contents
        return progress(TrainStep(told.step, told.steps, told.epoch, told.loss, told.scale, told.seconds,
                                  told.samples_per_second)) is not False

    return _abi.DemiTrainFn(guard.wrap(report, False))


def train(model: Model, data: Mapping[str, Any], out: Path | None = None, *, steps: int = 0,
          epochs: int = 0, batch: int = 0, seed: int = 0, in_order: bool = False,
          rate: float | None = None, threads: int = 0, numerics: str = "fast",
          checkpoint: Path | None = None, every: int = 100, training: bool = False,
          progress: Callable[[TrainStep], Any] | None = None, data_root: Path | None = None) -> Any:
    """Trains a model that has a training_info (the pass make-training gives one) and gives back a Trained,
    with `out` alone, else (model, Trained), the model of the kind that was given.

    `data` has arrays called as the inputs of the model and of its algorithm are, whose first axis is
    samples. `steps` or `epochs` say how long, those of a model that has steps behind it counted. The
    order of samples is `seed`'s, or theirs with `in_order`. `rate` replaces learning_rate. Every
    `every` steps, and at the end, the model goes to `checkpoint` with its training_info; trained on,
    that gives the bits of training at once. `training`: what is given back keeps its training_info, too.
    `progress` is called after each step; it returns False to end there."""
    if numerics not in ("fast", "faithful"):
        raise UsageError(f"numerics is fast or faithful, not {numerics!r}")
    guard = Guard()
    names = [encode(name) for name in data]
    held = [value_of(array, _codes.DEMI_FLOAT) for array in data.values()]
    compile_options = _abi.DemiCompileOptions(
        numerics=_codes.DEMI_NUMERICS_FAST if numerics == "fast" else _codes.DEMI_NUMERICS_FAITHFUL)
    context = _abi.DemiContextOptions(threads=threads)
    how = _abi.DemiTrainOptions(
        names=(ctypes.c_char_p * max(len(names), 1))(*names),
        data=(_abi.DemiData * max(len(held), 1))(*[item.data for item in held]), data_count=len(held),
        steps=steps, epochs=epochs, batch=batch, seed=seed, in_order=in_order,
        compile=ctypes.pointer(compile_options), context=ctypes.pointer(context), every=every,
        progress=_step_callback(progress, guard))
    if rate is not None:
        how.rate = ctypes.pointer(ctypes.c_double(rate))
    if checkpoint is not None:
        where = encode(checkpoint)

        def save(_: int, trained_model: Any, __: int) -> bool:
            call(lib.demi_save_file, ctypes.c_void_p(trained_model), where, None)
            return True

        how.save = _abi.DemiTrainSaveFn(guard.wrap(save, False))
    result = _abi.DemiTrained()
    with Handle(model, data_root) as handle:
        call(lib.demi_train, handle, byref(how), byref(result), guard=guard)
        if not training:
            call(lib.demi_run_pipeline, handle, b"strip-training", None, None)
        made = None
        if out is None:
            made = save_like(handle, model)
        else:
            call(lib.demi_save_file, handle, encode(out), None)
    trained = Trained(result.steps, result.loss, result.seconds, result.samples_per_second,
                      result.ended_early)
    return trained if out is not None else (made, trained)
