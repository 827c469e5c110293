# SPDX-License-Identifier: Apache-2.0
"""Training: adds a training_info to a model, and trains a model that has one on arrays of samples."""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import dataclass
from typing import Any, Callable, Literal, Mapping, Sequence

from . import _abi
from . import _abi_constants as _codes
from ._arguments import checked
from ._errors import UsageError
from ._lib import Guard, call, encode, lib
from ._models import Folder, Handle, Model, Path, choice, save_like, values_of


@dataclass(frozen=True)
class TrainStep:
    """A step that was just completed. `step` is its number, from 1 on, of `steps`; `epoch` also counts from
    1. `loss` is that before the update of this step, of the first training_info; `losses` has one per
    training_info. `scale` is the loss scale of the next step, 0 if there is none. `seconds` is the time
    since the first step, and `samples_per_second` the throughput since then."""

    step: int
    steps: int
    epoch: int
    loss: float
    scale: float
    seconds: float
    samples_per_second: float
    losses: tuple[float, ...] = ()


@dataclass(frozen=True)
class Trained:
    """The result of a training: the completed steps, including those of a checkpoint; the last loss (NaN
    without a step); the time; and whether `progress` ended it."""

    steps: int
    loss: float
    seconds: float
    samples_per_second: float
    ended_early: bool


def _step_callback(progress: Callable[[TrainStep], Any] | None, guard: Guard) -> Any:
    """Returns a DemiTrainFn. There is always one, so that Ctrl-C is noticed between steps."""

    def report(_: int, step: Any) -> bool:
        if progress is None:
            return True
        told = step.contents
        return progress(TrainStep(told.step, told.steps, told.epoch, told.loss, told.scale, told.seconds,
                                  told.samples_per_second,
                                  tuple(told.losses[:told.loss_count]))) is not False

    return _abi.DemiTrainFn(guard.wrap(report, False))


_LOSSES = {"cross-entropy": _codes.DEMI_LOSS_CROSS_ENTROPY, "mse": _codes.DEMI_LOSS_MSE}
_OPTIMIZERS = {"sgd": _codes.DEMI_OPTIMIZER_SGD, "momentum": _codes.DEMI_OPTIMIZER_MOMENTUM,
               "adam": _codes.DEMI_OPTIMIZER_ADAM, "adagrad": _codes.DEMI_OPTIMIZER_ADAGRAD}


@checked
def make_training(model: Model, out: Path | None = None, *, loss: str = "cross-entropy",
                  optimizer: str = "sgd", rate: float = 0.01, momentum: float = 0.9,
                  decay: float = 0.0, scale: float | Literal["dynamic"] | None = None,
                  output: str | None = None, freeze: Sequence[str] = (), decompose: bool = False,
                  data_root: Folder | None = None) -> Any:
    """Adds a training_info to an inference model, for `train`. Returns a model of the same type as the
    argument; with `out`, a path, writes it there and returns None.

    The training_info has a loss, computed from the output (`output` if there are several) and the input
    'labels'; its gradient with respect to all parameters except those in `freeze`; and an optimizer.
    `loss` is cross-entropy (of class indices) or mse. `optimizer` is sgd, momentum, adam, or adagrad, with
    the learning rate `rate`, `momentum`, and weight decay `decay`. `decompose` makes it of standard
    operators, which any runtime has. `scale` is the loss scaling for training in float16: "dynamic", which
    adjusts it during training, or a number."""
    names = [encode(name) for name in freeze]
    how = _abi.DemiTrainingOptions(
        loss=choice(_LOSSES, loss, "loss"), optimizer=choice(_OPTIMIZERS, optimizer, "optimizer"),
        rate=rate, momentum=momentum, decay=decay, output=None if output is None else encode(output),
        scale=0.0 if scale is None or scale == "dynamic" else scale, dynamic_scale=scale == "dynamic",
        freeze=(ctypes.c_char_p * max(len(names), 1))(*names), freeze_count=len(names), decompose=decompose)
    with Handle(model, data_root) as handle:
        call(lib.demi_make_training, handle, byref(how), None)
        if out is None:
            return save_like(handle, model)
        call(lib.demi_save_file, handle, encode(out), None)
    return None


@checked
def train(model: Model, data: Mapping[str, Any], out: Path | None = None, *, steps: int = 0,
          epochs: int = 0, batch: int = 0, seed: int = 0, in_order: bool = False,
          rate: float | None = None, keep_weights: bool = False, threads: int = 0,
          numerics: str = "fast",
          checkpoint: Path | None = None, every: int = 100, training: bool = False,
          progress: Callable[[TrainStep], Any] | None = None, data_root: Folder | None = None) -> Any:
    """Trains a model that has a training_info (as from make_training). With `out`, a path, writes the model
    there and returns a Trained. Otherwise, returns (model, Trained), with a model of the same type as the
    argument.

    `data` has arrays by the names of inputs of the model and of its algorithm; their first axis is samples.
    `steps` or `epochs` is the duration in total, including steps that the model has completed before.
    `batch` is the number of samples per step; 0 means that of the model, otherwise 32. `seed` determines
    the order of samples, unless `in_order`. `rate` replaces the learning rate. An initialization runs before
    the first step, unless `keep_weights`. `threads` 0 means all CPUs.

    Every `every` steps, and at the end, the model is written to `checkpoint` with its training_info.
    Continuing from there gives the same bits as training without interruption. With `training`, the
    returned model also keeps its training_info. `progress` is called after each step with a TrainStep; it
    returns False to end the training."""
    if numerics not in ("fast", "faithful"):
        raise UsageError(f"numerics must be fast or faithful, not {numerics!r}")
    guard = Guard()
    names = [encode(name) for name in data]
    held = values_of("data", data)
    compile_options = _abi.DemiCompileOptions(
        numerics=_codes.DEMI_NUMERICS_FAST if numerics == "fast" else _codes.DEMI_NUMERICS_FAITHFUL)
    context = _abi.DemiContextOptions(threads=threads)
    how = _abi.DemiTrainOptions(
        names=(ctypes.c_char_p * max(len(names), 1))(*names),
        data=(_abi.DemiData * max(len(held), 1))(*[item.data for item in held]), data_count=len(held),
        steps=steps, epochs=epochs, batch=batch, seed=seed, in_order=in_order,
        keep_weights=keep_weights, compile=ctypes.pointer(compile_options), context=ctypes.pointer(context), every=every,
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
