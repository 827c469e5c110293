# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's InferenceSession, implemented by demi's Session."""

from __future__ import annotations

import os
import pathlib
import threading
import warnings
from typing import Any, Callable, Mapping, Sequence

from .. import _convert
from .._errors import DemiError, EnvironmentFailure
from .._session import NodeArg, Session
from .._arguments import refuse, shown
from .._models import Model
from .errors import Fail, InvalidArgument, as_onnxruntime, checked
from .meta import ModelMetadata, metadata_of
from .options import RunOptions, SessionOptions, how_of
from .values import IOBinding, OrtValue, of_value

_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
ALL_PROVIDERS = [_CUDA, _CPU]
# Others of onnxruntime's, which programs list before those that they fall back to.
_ELSEWHERE = {f"{name}ExecutionProvider" for name in (
    "Tensorrt", "NvTensorRTRTX", "ROCM", "MIGraphX", "OpenVINO", "Dml", "CoreML", "DNNL", "Dnnl", "ACL", "ArmNN",
    "Xnnpack", "XNNPACK", "QNN", "CANN", "Azure", "NNAPI", "VitisAI", "JS", "WebGPU", "WebNN", "Rknpu", "SNPE",
    "TVM", "Nuphar", "Nnapi", "VSINPU")}


def _options_of(options: Any) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        raise refuse("provider_options", "options of each provider", options, kind=InvalidArgument)
    return dict(options)


def _pair_of(provider: Any) -> tuple[str, Mapping[str, Any]]:
    """Returns the name and options of a provider, which may be a name or a pair of both."""
    pair = tuple(provider) if isinstance(provider, (tuple, list)) else (provider, {})
    if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], Mapping):
        raise refuse("providers", "names, or pairs of a name and its options", provider, kind=InvalidArgument)
    return pair


def _listed(providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None,
            from_options: list[tuple[str, dict[str, str]]]) -> list[tuple[str, dict[str, Any]]]:
    """Returns (name, options) of the available providers, in order. Warns of others."""
    if providers is None:
        given: list[tuple[str, dict[str, Any]]] = [(name, dict(more)) for name, more in from_options]
    else:
        if options is not None and len(options) != len(providers):
            raise InvalidArgument("'provider_options' must be as long as 'providers'")
        given = []
        for i, provider in enumerate(providers):
            name, more = _pair_of(provider)
            given.append((str(name), {**dict(more), **(_options_of(options[i]) if options else {})}))
    found = []
    for name, more in given:
        if name in ALL_PROVIDERS:
            found.append((name, more))
        elif name in _ELSEWHERE:
            warnings.warn(f"Specified provider '{name}' is not in available provider names. "
                          f"Available providers: '{', '.join(ALL_PROVIDERS)}'", UserWarning, stacklevel=4)
        else:
            raise InvalidArgument(f"providers: there is no provider {shown(name)}", hint=f"the providers are: {', '.join(ALL_PROVIDERS)}")
    return found or [(_CPU, {})]


def _heed(options: RunOptions | None) -> None:
    """Checks the options of a run that begins."""
    if options is None:
        return
    if not isinstance(options, RunOptions):
        raise refuse("run_options", "RunOptions", options, kind=InvalidArgument)
    if options.terminate:
        raise Fail("the run was ended: RunOptions.terminate is set")


def _names_of(names: Any) -> list[str] | None:
    """Returns the names, or None for all outputs, which an empty list also means."""
    if isinstance(names, str):
        raise refuse("output_names", "a list of names", names, kind=InvalidArgument)
    try:
        return list(names) or None
    except Exception:
        raise refuse("output_names", "a list of names", names, kind=InvalidArgument) from None


class InferenceSession(Session):
    """A model to run, with onnxruntime's arguments, methods, and errors."""

    @checked
    def __init__(self, path_or_bytes: Model, sess_options: SessionOptions | None = None,
                 providers: Sequence[Any] | None = None,
                 provider_options: Sequence[Mapping[str, Any]] | None = None, **more: Any) -> None:
        more.pop("disabled_optimizers", None)
        more.pop("enable_fallback", None)
        if more:
            raise InvalidArgument(f"there is no argument {next(iter(more))!r}")
        self._options = sess_options if sess_options is not None else SessionOptions()
        self._options.check()
        self._source = bytes(path_or_bytes) if isinstance(path_or_bytes, (bytearray, memoryview)) else path_or_bytes
        self._listed = _listed(providers, provider_options, self._options._providers)
        self._open()

    def _open(self) -> None:
        name, options = self._listed[0]
        try:
            self._begin(how_of(name, options))
        except EnvironmentFailure as error:
            if name == _CPU:
                raise as_onnxruntime(error, True) from error
            warnings.warn(f"Failed to create {name}: {error}. The session runs on the CPU.", UserWarning,
                          stacklevel=4)
            self._listed = [(_CPU, {})]
            self._open()
        except DemiError as error:
            raise as_onnxruntime(error, True) from error

    def _begin(self, how: dict[str, Any]) -> None:
        model = self._source
        if self._options._sizes:
            sizes = ",".join(f'"{name}={size}"' for name, size in self._options._sizes.items())
            if isinstance(model, (str, os.PathLike)):
                model = pathlib.Path(model).read_bytes()
            model, _ = _convert.run_passes(model, f"set-shapes{{dims=[{sizes}]}}")
        Session.__init__(self, model, threads=self._options.intra_op_num_threads, **how)

    # -- what it is --

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_inputs(self) -> list[NodeArg]:
        """Returns the inputs that are required."""
        return [arg for arg in self._plan.inputs if not arg.has_default]

    def get_overridable_initializers(self) -> list[NodeArg]:
        return [arg for arg in self._plan.inputs if arg.has_default]

    def get_modelmeta(self) -> ModelMetadata:
        return metadata_of(self._source if not hasattr(self._source, "SerializeToString")
                           else self._source.SerializeToString())

    def get_providers(self) -> list[str]:
        names = [name for name, _ in self._listed]
        return names if _CPU in names else [*names, _CPU]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        said = {name: {key: str(value) for key, value in more.items()} for name, more in self._listed}
        return {name: said.get(name, {}) for name in self.get_providers()}

    @checked
    def set_providers(self, providers: Sequence[Any] | None = None,
                      provider_options: Sequence[Mapping[str, Any]] | None = None) -> None:
        self._listed = _listed(providers, provider_options, [])
        self._open()

    def disable_fallback(self) -> None:
        """Does nothing: here, a device that fails always ends the run."""

    def enable_fallback(self) -> None:
        """Does nothing: only a new session falls back to the CPU."""

    def end_profiling(self) -> str:
        raise Fail("demi's sessions have no profiling; use `demi bench --trace`")

    # -- runs --

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: RunOptions | None = None) -> list[Any]:
        """Returns the outputs of these names; all for None or an empty list."""
        _heed(run_options)
        if isinstance(input_feed, Mapping) and any(isinstance(value, OrtValue) for value in input_feed.values()):
            input_feed = {name: of_value(value) for name, value in input_feed.items()}
        try:
            return Session.run(self, output_names if output_names is None else _names_of(output_names), input_feed)
        except DemiError as error:
            raise as_onnxruntime(error, False) from error

    @checked
    def run_with_ort_values(self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    @checked
    def run_async(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],  # type: ignore[override]
                  callback: Callable[[list[Any], Any, str], None], user_data: Any,
                  run_options: RunOptions | None = None) -> None:
        """Calls `callback(outputs, user_data, error)` in another thread."""
        def work() -> None:
            made: list[Any] = []
            text = ""
            try:
                made = self.run(output_names, input_feed, run_options)
            except Exception as error:  # noqa: BLE001: the callback is told
                text = str(error) or type(error).__name__
            callback(made, user_data, text)
        threading.Thread(target=work, daemon=True).start()

    def io_binding(self) -> IOBinding:  # type: ignore[override]
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding,  # type: ignore[override]
                           run_options: RunOptions | None = None) -> None:
        _heed(run_options)
        if not isinstance(iobinding, IOBinding):
            raise refuse("iobinding", "an IOBinding", iobinding, kind=InvalidArgument)
        try:
            Session.run_with_iobinding(self, iobinding._binding)
        except DemiError as error:
            raise as_onnxruntime(error, False) from error

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self._source, "options": self._options, "listed": self._listed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._source, self._options, self._listed = state["source"], state["options"], state["listed"]
        self._open()
