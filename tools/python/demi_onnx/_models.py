# SPDX-License-Identifier: Apache-2.0
"""Models as arguments (a path, bytes, or an onnx.ModelProto), and options for the library.

Functions return a model of the type that they were given. Files at paths are never loaded into Python.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Iterable, Mapping, Protocol, Sequence, Union

from . import _abi
from . import _abi_constants as _codes
from ._arguments import refuse, take
from ._errors import UsageError, named
from ._large import LargeModel, Weights, is_large
from ._lib import Guard, call, encode, find_onednn, lib
from ._values import Holder, value_of


class ModelProto(Protocol):
    """onnx.ModelProto; onnx need not be installed."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802


Path = Union[str, "os.PathLike[str]"]
Folder = Path  # which may be empty: where the program is
Model = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, ModelProto]
# Called with what is under way, how many steps of it are done, and of how many. False ends the call.
Progress = Callable[[str, int, int], Any]


def is_path(model: Any) -> bool:
    return isinstance(model, (str, os.PathLike))


def is_proto(model: Any) -> bool:
    return hasattr(model, "SerializeToString") and hasattr(model, "graph")


def held(model: Any) -> bytes | LargeModel:
    """Returns a model that is not a path as the library reads it: in one part, or if large, in two."""
    if isinstance(model, (bytes, LargeModel)):
        return model
    if isinstance(model, (bytearray, memoryview)):
        return bytes(model)
    if not is_proto(model):
        raise refuse("model", "a path, bytes, or an onnx.ModelProto", model)
    if is_large(model):
        return LargeModel(model)
    try:
        return model.SerializeToString()  # type: ignore[no-any-return]
    except Exception:  # protobuf's, whose class depends on its version: where subgraphs are large
        return LargeModel(model)




def load_options(data_root: Folder | None, name: str = "") -> _abi.DemiLoadOptions:
    """Makes load options. `name` is what errors call a model that does not come from a path."""
    options = _abi.DemiLoadOptions()
    if name:
        options.name = name.encode()
    if data_root is not None:
        options.data_root = encode(data_root)
    return options


def _part_of(model: Any, options: _abi.DemiLoadOptions) -> tuple[Any, bytes]:
    """Returns what must stay as long as the library's model, and the bytes to load."""
    kept = held(model)
    if isinstance(kept, bytes):
        return kept, kept
    kept.options(options)
    return kept, kept.shell


class Pointer(ctypes.c_void_p):
    """A DemiModel, and whether its weights were passed separately."""

    is_apart = False


class Handle:
    """A model of the library, for use in a `with` statement."""

    def __init__(self, model: Model, data_root: Folder | None = None, name: str = "model") -> None:
        self.pointer = Pointer()
        options = load_options(data_root, "" if is_path(model) else name)
        if is_path(model):
            call(lib.demi_load_file, encode(model), ctypes.byref(options),  # type: ignore[arg-type]
                 ctypes.byref(self.pointer))
            return
        self._held, data = _part_of(model, options)  # borrowed
        self.pointer.is_apart = isinstance(self._held, LargeModel)
        call(lib.demi_load_memory, data, len(data), ctypes.byref(options), ctypes.byref(self.pointer))

    def __enter__(self) -> Pointer:
        return self.pointer

    def __exit__(self, *_: object) -> None:
        lib.demi_free(self.pointer)


class Source:
    """A DemiSource: a model that the library opens each time that it needs it to run."""

    def __init__(self, model: Model | LargeModel, data_root: Folder | None = None, name: str = "model") -> None:
        find_onednn()
        self.value = _abi.DemiSource()
        self._load = load_options(data_root, "" if is_path(model) else name)
        self.value.load = ctypes.pointer(self._load)
        if is_path(model):
            self.value.path = encode(model)  # type: ignore[arg-type]
            return
        self._held, self._bytes = _part_of(model, self._load)
        self._open = _abi.DemiOpenFn(self._open_bytes)
        self.value.open = self._open

    def _open_bytes(self, _: int, model: Any, error: Any) -> int:
        status = lib.demi_load_memory(self._bytes, len(self._bytes), ctypes.byref(self._load), model,
                                      error)
        return int(status)

    @property
    def ref(self) -> Any:
        return ctypes.byref(self.value)


class Writer:
    """A DemiWriteFn that collects what the library writes."""

    def __init__(self, guard: Guard) -> None:
        self._pieces: list[bytes] = []
        self.callback = _abi.DemiWriteFn(guard.wrap(self._take, False))

    def _take(self, _: int, data: int, size: int) -> bool:
        self._pieces.append(ctypes.string_at(data, size))
        return True

    def bytes(self) -> bytes:
        return b"".join(self._pieces)


def save_like(model: Pointer, original: Model) -> Any:
    """Returns the library's model in the type of the original; bytes if that is a path."""
    guard = Guard()
    writer, weights = Writer(guard), Weights()
    options = _abi.DemiSaveOptions(format=_codes.DEMI_FORMAT_ONNX)
    if model.is_apart:
        options.data_name = encode(weights.name)
        options.data = _abi.DemiWriteFn(guard.wrap(weights.take, False))
    call(lib.demi_save_callback, model, writer.callback, None, ctypes.byref(options), guard=guard)
    if not is_proto(original):
        return writer.bytes()
    proto: Any = type(original)()  # type: ignore[call-arg]
    proto.ParseFromString(writer.bytes())
    return weights.fill(proto) if model.is_apart else proto


def texts(items: Iterable[str]) -> Any:
    """Returns a list of texts for C."""
    encoded = [encode(item) for item in items]
    return (ctypes.c_char_p * max(len(encoded), 1))(*encoded)


def text_list(value: Any, name: str) -> list[str]:
    return take(name, "Sequence[str]", [value] if isinstance(value, str) else value)  # type: ignore[no-any-return]


def choice(words: Mapping[str, int], value: Any, name: str) -> int:
    """Returns the number of a word."""
    if not isinstance(value, str) or value.replace("_", "-") not in words:
        raise refuse(name, f"one of {', '.join(words)}", value)
    return words[value.replace("_", "-")]


def progress_callback(progress: Progress | None, guard: Guard) -> Any:
    """Returns a DemiProgressFn. There is always one, so that Ctrl-C is noticed between steps."""

    def report(_: int, what: bytes | None, done: int, total: int) -> bool:
        if progress is None:
            return True
        return progress((what or b"").decode(errors="replace"), done, total) is not False

    return _abi.DemiProgressFn(guard.wrap(report, False))


def print_text(model: ctypes.c_void_p, full: bool) -> str:
    guard = Guard()
    writer = Writer(guard)
    call(lib.demi_print, model, full, writer.callback, None, guard=guard)
    return writer.bytes().decode("utf-8", "backslashreplace")


def write_file(path: Path, made: bytes) -> None:
    """Writes the bytes to the path, all of them or none."""
    import tempfile
    folder = os.path.dirname(os.fspath(path)) or "."
    fd, temporary = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(made)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


# ---- sets of inputs ----------------------------------------------------------------------------------

Feeds = Mapping[str, Any]
Data = Union[str, "os.PathLike[str]", Feeds, Sequence[Feeds], None]


def set_sizes(options: Any, dims: Mapping[str, int] | None,
              shapes: Mapping[str, Sequence[int]] | None) -> None:
    """Sets `dims` and `shapes` of a structure, which keeps their texts."""
    dims = {name: take("dims", "int64", size) for name, size in take("dims", "Mapping", dims or {}).items()}
    shapes = {name: take("shapes", "Sequence[int]", sizes)
              for name, sizes in take("shapes", "Mapping", shapes or {}).items()}
    options.dims, options.dim_count = texts([f"{k}={v}" for k, v in dims.items()]), len(dims)
    options.shapes = texts([f"{k}=" + "x".join(map(str, v)) for k, v in shapes.items()])
    options.shape_count = len(shapes)


def inputs_how(inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Checks the settings of random inputs, and returns them as arguments of `Inputs`."""
    how = dict(inputs or {})
    for name in how:
        if name not in ("seed", "sets", "dims", "shapes"):
            raise refuse("inputs", "seed, sets, dims or shapes", name)
    return how


def values_of(operand: str, feeds: Mapping[str, Any]) -> list[Holder]:
    """Returns the library's form of arrays. The error names one that is not an array."""
    made = []
    for name, value in feeds.items():
        try:
            made.append(value_of(value, _codes.DEMI_FLOAT))
        except (TypeError, ValueError, OverflowError, RuntimeError, BufferError, AttributeError) as error:
            raise named(error, f"{operand}, array '{name}'") from error
    return made


class Inputs:
    """DemiInputOptions from a caller's data: "random", a path, a set of arrays by name, or a list of such
    sets."""

    def __init__(self, data: Data, *, name: str = "data", seed: int = 0, sets: int = 0, dims: Mapping[str, int] | None = None,
                 shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        self._name = name
        self.value = _abi.DemiInputOptions(seed=take("seed", "int", seed), sets=take("sets", "int", sets))
        self.value.hint = b"pass an array for the input NAME in `data`"
        self._kept: list[Any] = []
        if data is None or (isinstance(data, str) and data == "random"):
            self.value.random = True
        elif isinstance(data, (str, os.PathLike)):
            self.value.data = encode(take(name, "Path", data))
        else:
            self._set_values([data] if isinstance(data, Mapping) else list(take(name, "Sequence", data)))
        set_sizes(self.value, dims, shapes)

    def _set_values(self, sets: list[Any]) -> None:
        holders: list[tuple[int, str, Holder]] = []
        for number, feeds in enumerate(sets):
            if not isinstance(feeds, Mapping):
                raise refuse(self._name, "a path, arrays by name, or a list of such sets", feeds)
            take(self._name, "Mapping", feeds)
            holders += [(number, name, holder) for name, holder in zip(feeds, values_of(self._name, feeds))]
        values = (_abi.DemiInputValue * max(len(holders), 1))()
        for value, (number, name, holder) in zip(values, holders):
            value.set, value.name = number, encode(name)
            value.value = ctypes.pointer(holder.data)
        self._kept += [holders, values]
        self.value.values, self.value.value_count = values, len(holders)

    @property
    def pointer(self) -> Any:
        return ctypes.pointer(self.value)
