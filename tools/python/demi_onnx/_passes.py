# SPDX-License-Identifier: Apache-2.0
"""Passes in Python: the library's plug-in interface (demi_plugin.h) as objects.

    @demi_onnx.register_pass("name-nodes", summary="name all nodes")
    def name_nodes(graph):
        for node in graph.nodes:
            if not node.name:
                node.name = "unnamed"

    demi_onnx.run_passes("in.onnx", "name-nodes", "out.onnx")

The graph that a pass receives, its nodes, and its values are valid until the pass returns. An exception
ends the pipeline with an error that names the pass. What the library refuses is raised immediately, as a
PassError. Passes stay registered as long as the program runs.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, Iterator, Mapping, Sequence, TypeVar

import numpy as np

from . import _abi_constants as _codes
from ._arguments import checked, refuse, take
from ._errors import UsageError, named, text_of
from ._lib import call, encode, lib, raised
from ._models import Path
from ._values import dtype_of, number_of

_MOST_OUTPUTS = 1 << 16  # of a node
_Int64s = ctypes.POINTER(ctypes.c_int64)
_KINDS = {bool: _codes.DEMI_OPTION_BOOL, int: _codes.DEMI_OPTION_INT, str: _codes.DEMI_OPTION_STRING,
          list: _codes.DEMI_OPTION_STRINGS}
_SCOPES = {"model": _codes.DEMI_SCOPE_MODEL, "graphs": _codes.DEMI_SCOPE_GRAPHS}
_FACTS = {"dtypes": _codes.DEMI_FACT_DTYPES, "shapes": _codes.DEMI_FACT_SHAPES}


def _plugin() -> Any:
    """Imports the structures of plug-ins, which most programs never need."""
    from . import _abi_plugin
    return _abi_plugin


class PassError(Exception):
    """The library refused a request of a pass; the error of the pipeline says which."""


_OVER = "the pass has returned: what it received of the model is no longer valid"


class _Over:
    """The interface after the end of a pass."""

    def __getattr__(self, name: str) -> Any:
        raise PassError(_OVER)


class _Run:
    """One run of a pass: the interface, and the handle for its functions."""

    def __init__(self, api: Any, handle: int) -> None:
        self.api, self.handle = api, handle
        self.removed: set[int] = set()

    def end(self) -> None:
        self.api = _Over()

    def may_fail(self, made: Any) -> Any:
        if self.api.failed(self.handle):
            raise PassError("the library refused the request of the pass")
        return made


class _Thing:
    """A part of a model: a handle of the library."""

    def __init__(self, run: _Run, handle: int) -> None:
        if not isinstance(run, _Run):
            raise refuse("run", "the argument of a pass", run)
        self._run, self._it = run, handle

    def _operand(self, thing: "_Thing | None", name: str) -> int | None:
        """Returns the handle of an argument of one of this run's functions."""
        if thing is not None and thing._run is not self._run:
            raise refuse(name, "a part of the model that this pass received", thing)
        return thing._handle if thing is not None else None

    @property
    def _handle(self) -> int:
        if isinstance(self._run.api, _Over):
            raise PassError(_OVER)
        if self._it in self._run.removed:
            raise PassError("the node was removed")
        return self._it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Thing) and self._it == other._it

    def __hash__(self) -> int:
        return hash(self._it)


_Kind = TypeVar("_Kind", bound=_Thing)


class Value(_Thing):
    """A graph input, an initializer, or an output of a node."""

    @property
    def name(self) -> str:
        return text_of(self._run.api.value_name(self._handle))

    @name.setter
    @checked
    def name(self, name: str) -> None:
        self._run.may_fail(self._run.api.value_rename(self._run.handle, self._handle, encode(name)))

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The numpy type of its elements; None if unknown."""
        number = self._run.api.value_dtype(self._handle)
        return dtype_of(number) if number else None

    @property
    def shape(self) -> list[int | str | None] | None:
        """Its sizes, where a dynamic size is a name or None; None if the rank is unknown."""
        api, found = self._run.api, self._run.api.value_type(self._handle)
        if not api.type_has_rank(found):
            return None
        symbol = ctypes.c_char_p()
        sizes: list[int | str | None] = []
        for i in range(api.type_rank(found)):
            size = api.type_dim(found, i, ctypes.byref(symbol))
            sizes.append(size if size >= 0 else text_of(symbol.value) or None)
        return sizes

    @property
    def producer(self) -> "Node | None":
        return _maybe(Node, self._run, self._run.api.value_producer(self._handle))

    @property
    def users(self) -> list["Node"]:
        """The nodes that read it, one per place that does."""
        return [node for use in self._uses()
                if (node := _maybe(Node, self._run, self._run.api.use_node(use))) is not None]

    def _uses(self) -> list[int]:
        uses, use = [], self._run.api.value_first_use(self._handle)
        while use:
            uses.append(use)
            use = self._run.api.use_next(use)
        return uses

    @property
    def is_input(self) -> bool:
        return bool(self._run.api.value_is_input(self._handle))

    @property
    def is_output(self) -> bool:
        return bool(self._run.api.value_is_output(self._handle))

    @property
    def constant(self) -> np.ndarray[Any, Any] | None:
        """A copy of the elements if it is a constant; None if it is not, or has strings."""
        tensor = self._run.api.value_constant(self._run.handle, self._handle)
        self._run.may_fail(tensor)
        return _array_of(self._run, tensor) if tensor else None

    @checked
    def replace_with(self, other: "Value") -> None:
        """Makes all readers of this value read the other one."""
        self._run.may_fail(self._run.api.value_replace(self._run.handle, self._handle,
                                                    self._operand(other, "other")))

    @checked
    def set_constant(self, array: Any) -> None:
        tensor = _tensor_of(self._run, array)
        self._run.may_fail(self._run.api.constant_set(self._run.handle, self._handle, tensor))

    def __repr__(self) -> str:
        return f"Value({self.name!r})"


class Node(_Thing):
    """A call of an operator or function."""

    @property
    def name(self) -> str:
        return text_of(self._run.api.node_name(self._handle))

    @name.setter
    @checked
    def name(self, name: str) -> None:
        self._run.may_fail(self._run.api.node_set_name(self._run.handle, self._handle, encode(name)))

    @property
    def op_type(self) -> str:
        return text_of(self._run.api.node_op_type(self._handle))

    @property
    def domain(self) -> str:
        return text_of(self._run.api.node_domain(self._handle))

    @property
    def inputs(self) -> list[Value | None]:
        api = self._run.api
        return [_maybe(Value, self._run, api.node_input(self._handle, i))
                for i in range(api.node_input_count(self._handle))]

    @property
    def outputs(self) -> list[Value | None]:
        api = self._run.api
        return [_maybe(Value, self._run, api.node_output(self._handle, i))
                for i in range(api.node_output_count(self._handle))]

    @checked
    def set_op(self, op_type: str, domain: str = "") -> None:
        """Changes the operator; operands and attributes stay."""
        self._run.may_fail(self._run.api.node_set_op(self._run.handle, self._handle, encode(domain),
                                                     encode(op_type)))

    @checked
    def set_input(self, i: int, value: Value | None) -> None:
        if not 0 <= i < self._run.api.node_input_count(self._handle):
            raise refuse("i", f"the index of one of {len(self.inputs)} inputs", i)
        self._run.may_fail(self._run.api.node_set_input(
            self._run.handle, self._handle, i, self._operand(value, "value")))

    def remove(self) -> None:
        """Removes the node. Nothing may read its outputs anymore."""
        self._run.may_fail(self._run.api.node_remove(self._run.handle, self._handle))
        self._run.removed.add(self._it)

    @checked
    def attribute(self, name: str, otherwise: Any = None) -> Any:
        """Returns an attribute that is a number, a text, a list of these, or a tensor; else `otherwise`."""
        api, attr = self._run.api, self._run.api.node_attr(self._handle, encode(name))
        kind = api.attr_type(attr) if attr else _codes.DEMI_ATTR_UNDEFINED
        if kind == _codes.DEMI_ATTR_INT:
            return api.attr_int(attr, 0)
        if kind == _codes.DEMI_ATTR_FLOAT:
            return api.attr_float(attr, 0.0)
        if kind == _codes.DEMI_ATTR_STRING:
            return text_of(api.attr_string(self._run.handle, attr, None))
        if kind == _codes.DEMI_ATTR_TENSOR:
            return _array_of(self._run, api.attr_tensor(attr))
        count = api.attr_count(attr) if attr else 0
        if kind == _codes.DEMI_ATTR_INTS:
            return ctypes.cast(api.attr_ints(attr), _Int64s)[:count]
        if kind == _codes.DEMI_ATTR_FLOATS:
            return ctypes.cast(api.attr_floats(attr), ctypes.POINTER(ctypes.c_float))[:count]
        if kind == _codes.DEMI_ATTR_STRINGS:
            return [text_of(api.attr_string_at(self._run.handle, attr, i, None))
                    for i in range(count)]
        return otherwise

    @checked
    def set_attribute(self, name: str, value: Any) -> None:
        api, run, key, of = self._run.api, self._run, encode(name), f"the value of attribute '{name}'"
        if isinstance(value, (bool, int)):
            made = api.node_set_int(run.handle, self._handle, key, take(of, "int64", value))
        elif isinstance(value, float):
            made = api.node_set_float(run.handle, self._handle, key, value)
        elif isinstance(value, str):
            made = api.node_set_string(run.handle, self._handle, key, encode(take(of, "str", value)))
        elif isinstance(value, np.ndarray):
            made = api.node_set_tensor(run.handle, self._handle, key, _tensor_of(run, value, of))
        else:
            made = self._set_list(key, take(of, "Sequence", value), of)
        run.may_fail(made)

    def _set_list(self, key: bytes, items: list[Any], of: str) -> Any:
        api, run, count = self._run.api, self._run, len(items)
        if items and all(isinstance(item, str) for item in items):
            texts = (ctypes.c_char_p * count)(*[encode(item) for item in take(of, "Sequence[str]", items)])
            return api.node_set_strings(run.handle, self._handle, key, texts, count)
        if any(isinstance(item, float) for item in items):
            floats = (ctypes.c_float * count)(*[take(of, "real", item) for item in items])
            return api.node_set_floats(run.handle, self._handle, key, floats, count)
        ints = (ctypes.c_int64 * max(count, 1))(*take(of, "Sequence[int]", items))
        return api.node_set_ints(run.handle, self._handle, key, ints, count)

    def __repr__(self) -> str:
        return f"Node({self.op_type} {self.name!r})"


class Graph(_Thing):
    """The main graph, a subgraph, or the body of a function."""

    @property
    def name(self) -> str:
        return text_of(self._run.api.graph_name(self._handle))

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in the order of the graph. The current node may be removed."""
        node = self._run.api.graph_first(self._handle)
        while node:
            following = self._run.api.node_next(node)
            yield Node(self._run, node)
            node = following

    @property
    def inputs(self) -> list[Value]:
        api = self._run.api
        return [Value(self._run, api.graph_input(self._handle, i))
                for i in range(api.graph_input_count(self._handle))]

    @property
    def outputs(self) -> list[Value]:
        api = self._run.api
        return [Value(self._run, api.use_value(api.graph_output(self._handle, i)))
                for i in range(api.graph_output_count(self._handle))]

    @checked
    def value(self, name: str) -> Value | None:
        """Returns the value of that name that this graph defines; None if there is none."""
        return _maybe(Value, self._run, self._run.api.graph_find_value(self._handle, encode(name)))

    @checked
    def opset(self, domain: str = "") -> int:
        return int(self._run.api.graph_opset(self._handle, encode(domain)))

    @checked
    def add_initializer(self, name: str, array: Any) -> Value:
        made = self._run.api.initializer_new(self._run.handle, self._handle, encode(name),
                                             _tensor_of(self._run, array))
        return Value(self._run, self._run.may_fail(made))

    @checked
    def add_node(self, op_type: str, inputs: Sequence[Value | None], outputs: Sequence[str] | int = 1, *,
                 domain: str = "", name: str = "", before: Node | None = None,
                 like: Value | None = None, **attributes: Any) -> Node:
        """Adds a node at the end of the graph, or before another node. `outputs` are names, or their number.
        They get the type of `like`, which is necessary if the pipeline needs types."""
        names: list[str | None] = _output_names(outputs)
        of = _plugin().DemiNewNode()
        of.size = ctypes.sizeof(of)
        of.op_type, of.domain = encode(op_type), encode(domain)
        of.name = encode(name) if name else None
        of.before = self._operand(before, "before")
        handles = (ctypes.c_void_p * max(len(inputs), 1))(*[self._operand(v, "inputs") for v in _values(inputs)])
        of.inputs = ctypes.cast(handles, type(of.inputs))
        of.input_count, of.output_count = len(inputs), len(names)
        texts = (ctypes.c_char_p * max(len(names), 1))(*[encode(n) if n else None for n in names])
        if not isinstance(outputs, int):
            of.outputs = texts
        node = Node(self._run, self._run.may_fail(self._run.api.node_new(
            self._run.handle, self._handle, ctypes.byref(of))))
        for key, value in attributes.items():
            node.set_attribute(key, value)
        if like is not None:
            found = self._run.api.value_type(self._operand(like, "like"))
            for output in node.outputs:
                assert output is not None
                self._run.may_fail(self._run.api.value_set_type(self._run.handle, output._handle, found))
        return node

    @checked
    def changed(self, count: int = 1) -> None:
        """Counts changes, for reports."""
        if count < 0:
            raise refuse("count", "a number of changes", count)
        self._run.api.rewrote(self._run.handle, count)

    @checked
    def print(self, text: str) -> None:
        """Prints text for the user, where the print pass writes."""
        self._run.may_fail(self._run.api.print(self._run.handle, encode(text).replace(b"%", b"%%")))


def _output_names(outputs: Any) -> list[str | None]:
    """Returns the names of a new node's outputs; None: the library generates a name."""
    if isinstance(outputs, int):
        if not 0 <= outputs <= _MOST_OUTPUTS:
            raise refuse("outputs", f"0 to {_MOST_OUTPUTS} outputs", outputs)
        return [None] * outputs
    return [name or None for name in take("outputs", "Sequence[str]", outputs)]


def _values(inputs: Any) -> list[Value | None]:
    for value in take("inputs", "Sequence", inputs):
        if value is not None and not isinstance(value, Value):
            raise refuse("inputs", "values, or None for an omitted one", value)
    return list(inputs)


def _maybe(kind: type[_Kind], run: _Run, handle: int | None) -> _Kind | None:
    return kind(run, handle) if handle else None


def _array_of(run: _Run, tensor: int) -> np.ndarray[Any, Any] | None:
    api = run.api
    rank = api.tensor_rank(tensor)
    shape = tuple(ctypes.cast(api.tensor_dims(tensor), _Int64s)[:rank]) if rank else ()
    number, size = api.tensor_dtype(tensor), api.tensor_bytes(tensor)
    bits = api.dtype_bits(number)
    if not bits or bits % 8:
        return None  # strings; elements of less than a byte
    room = ctypes.create_string_buffer(max(size, 1))
    run.may_fail(api.tensor_read(run.handle, tensor, 0, room, size))
    array: np.ndarray[Any, Any] = np.frombuffer(room.raw[:size], dtype_of(number))
    made: np.ndarray[Any, Any] = array.reshape(shape).copy()
    return made


def _tensor_of(run: _Run, array: Any, of: str = "array") -> int:
    try:
        array = np.asarray(array)
        number = number_of(array.dtype, _codes.DEMI_FLOAT)
    except (TypeError, ValueError, OverflowError, RuntimeError, BufferError) as error:
        raise named(error, of) from error
    if number == _codes.DEMI_STRING:
        raise refuse(of, "numbers, since passes can only make constants of numbers", array)
    dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    raw = array.tobytes()
    return int(run.may_fail(run.api.tensor_new(run.handle, number, dims, array.ndim, raw)))


# ---- registering ---------------------------------------------------------------------------------------


class _Registry:
    """The passes that pipelines of this program can name, and what must stay as long as they do."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pointer = ctypes.c_void_p()
        self.kept: list[Any] = []

    def passes(self) -> ctypes.c_void_p:
        """Returns the set; the caller holds the lock."""
        if not self.pointer:
            call(lib.demi_passes_new, ctypes.byref(self.pointer))
        return self.pointer


_registry = _Registry()


def passes_pointer() -> int | None:
    """Returns the set for options of runs; None: only the library's own passes."""
    return _registry.pointer.value


@checked
def load_passes(path: Path) -> None:
    """Adds the passes of a plug-in, a shared object, whose code runs with the rights of the program."""
    with _registry.lock:
        call(lib.demi_passes_load, _registry.passes(), encode(path))


def list_passes() -> dict[str, str]:
    """Returns the passes that a pipeline can name, and what each of them does."""
    passes = passes_pointer()
    return {text_of(lib.demi_pass_name(passes, i)): text_of(lib.demi_pass_summary(passes, i))
            for i in range(lib.demi_pass_count(passes))}


def _options_of(options: Mapping[str, Any]) -> Any:
    array = (_plugin().DemiPluginOption * max(len(options), 1))()
    for row, (name, otherwise) in zip(array, options.items()):
        kind = otherwise if isinstance(otherwise, type) else type(otherwise)
        if kind not in _KINDS:
            raise refuse("options", "bool, int, str, list, or a default of one of these types for each name", otherwise)
        row.size, row.kind = ctypes.sizeof(row), _KINDS[kind]
        row.name = encode(name.replace("_", "-"))
        if not isinstance(otherwise, type) and kind is not list:
            row.otherwise = encode(str(otherwise).lower() if kind is bool else str(otherwise))
    return array


def _read_options(run: _Run, options: Mapping[str, Any]) -> dict[str, Any]:
    api = run.api
    given: dict[str, Any] = {}
    for name, otherwise in options.items():
        kind = otherwise if isinstance(otherwise, type) else type(otherwise)
        key = encode(name.replace("_", "-"))
        if kind is bool:
            given[name] = bool(api.option_bool(run.handle, key))
        elif kind is int:
            given[name] = int(api.option_int(run.handle, key))
        elif kind is str:
            raw = api.option_string(run.handle, key)
            given[name] = text_of(raw) if raw is not None else None
        else:
            count = ctypes.c_size_t()
            items = api.option_strings(run.handle, key, ctypes.byref(count))
            found: Any = ctypes.cast(items, ctypes.POINTER(ctypes.c_char_p)) if items else []
            given[name] = [text_of(found[i]) for i in range(count.value)]
    return given


def _runner_of(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., bool]:
    def run(api: int, handle: int, graph: int) -> bool:
        at = _Run(_plugin().DemiApi.from_address(api), handle)
        try:
            function(Graph(at, graph), **_read_options(at, options))
        except BaseException as error:
            raised.error = error
            text = f"{type(error).__name__}: {error}".replace("%", "%%")
            at.api.fail(handle, _codes.DEMI_ERR_MODEL, None, text.encode("utf-8", "replace"))
            return False
        finally:
            at.end()
        return True

    return run


@checked
def register_pass(name: str, *, summary: str = "", scope: str = "model", needs: Sequence[str] = (),
                  gives: Sequence[str] = (), breaks: Sequence[str] = ("dtypes", "shapes"),
                  idempotent: bool = False,
                  options: Mapping[str, Any] | None = None) -> Callable[[Any], Any]:
    """Registers a function as a pass that pipelines can name.

    The function is called with a Graph (`scope` "model": the main graph; "graphs": each graph), and with its
    options as keyword arguments. `options` has a default for each, or one of the types bool, int, str, and
    list. `needs`, `gives`, and `breaks` are the facts that the pass needs, provides, and invalidates:
    "dtypes", "shapes". `idempotent` says that a second run changes nothing."""
    declared = dict(options or {})
    facts = []
    for what, given in (("needs", needs), ("gives", gives), ("breaks", breaks)):
        if not set(given) <= set(_FACTS):
            raise refuse(what, f"facts from {', '.join(_FACTS)}", given)
        facts.append(sum(_FACTS[fact] for fact in set(given)))
    if scope not in _SCOPES:
        raise refuse("scope", f"one of {', '.join(_SCOPES)}", scope)

    def register(function: Any) -> Any:
        made, rows = _plugin().DemiPluginPass(), _options_of(declared)
        run = type(made.run)(_runner_of(function, declared))
        made.size, made.scope = ctypes.sizeof(made), _SCOPES[scope]
        made.name, made.summary = encode(name), encode(summary)
        made.needs, made.gives, made.breaks = facts
        made.idempotent = idempotent
        made.option_count, made.options, made.run = len(declared), rows, run
        plugin = _plugin().DemiPlugin()
        plugin.size, plugin.api_size = ctypes.sizeof(plugin), ctypes.sizeof(_plugin().DemiApi)
        plugin.pass_count, plugin.passes = 1, ctypes.pointer(made)
        entry = lib.demi_passes_add.argtypes[1](lambda _: ctypes.addressof(plugin))
        with _registry.lock:
            call(lib.demi_passes_add, _registry.passes(), entry)
            _registry.kept += [made, rows, run, plugin, entry]
        return function

    return register


__all__ = ["Graph", "Node", "PassError", "Value", "list_passes", "load_passes", "register_pass"]
