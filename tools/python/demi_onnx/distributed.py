# SPDX-License-Identifier: Apache-2.0
"""Converts, searches, and runs models by several processes, on this machine or on a Ray cluster.

    from demi_onnx import distributed
    report = distributed.convert("model.onnx", "model.int8.onnx", to="int8", calibrate="samples", workers=3)

The results are those of the functions of the same names in demi_onnx, byte for byte, whatever the number of workers.
For `convert`, `calibrate`, and `search`, the calling process takes part in the work: with three workers, each of
four processes runs a quarter of the sets of inputs. Workers on other machines need the same demi_onnx, and the
model and the data at the same paths, unless these are passed as bytes and arrays.

`over` is "processes" (of this machine), "ray" (tasks of the Ray cluster that this program is connected to, or else
one that ray.init() finds or starts), or "auto": Ray if the program is connected to it, otherwise processes.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import queue
import secrets
import socket
import subprocess
import sys
import threading
from collections import deque
from multiprocessing.connection import Connection, Listener
from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np

from . import _convert, _search, _worker
from ._arguments import checked, refuse
from ._errors import DemiError, EnvironmentFailure, UsageError
from ._models import Data, Feeds, Folder, Model, Path, Progress, held, is_path
from ._report import Report
from ._search import SearchResult
from ._session import Session
from ._share import Share, sharing

_OVER = ("auto", "processes", "ray")
_WINDOW = 2  # items that a worker has at once: one that it runs, and one that it runs next


# ---- starting workers ---------------------------------------------------------------------------------


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise EnvironmentFailure("Ray is not installed", hint="pip install ray") from None


def _is_over_ray(over: str) -> bool:
    if over not in _OVER:
        raise refuse("over", f"one of {', '.join(_OVER)}", over)
    ray = sys.modules.get("ray")
    return over == "ray" or (over == "auto" and ray is not None and bool(ray.is_initialized()))


class _Processes:
    """Workers on this machine: `python -m demi_onnx._worker`, each with a socket."""

    def __init__(self, count: int, threads: int) -> None:
        self.threads = threads or max(1, (os.cpu_count() or 1) // (count + 1))
        self._processes: list[subprocess.Popen[bytes]] = []
        self.connections: list[Any] = []
        for _ in range(count):
            ours, theirs = socket.socketpair()
            with theirs:
                self._processes.append(subprocess.Popen(
                    [sys.executable, "-m", "demi_onnx._worker", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=self._environment()))
            self.connections.append(Connection(ours.detach()))

    @staticmethod
    def _environment() -> dict[str, str]:
        """The worker finds modules where this process does."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def why(self, number: int) -> str:
        """Says how a worker ended that closed its connection."""
        try:
            code = self._processes[number].wait(5)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        return f"was killed by signal {-code}" if code < 0 else f"exited with {code}"

    def end(self) -> None:
        for process in self._processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class _Tasks:
    """Workers on a Ray cluster: tasks that connect to this process."""

    def __init__(self, count: int, threads: int) -> None:
        self._ray = _ray()
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False)
        self.threads = threads or 1
        self._check_size(count)
        self._key = secrets.token_bytes(32)
        self._listener = Listener((self._ray.util.get_node_ip_address(), 0), authkey=self._key)
        self._stops = False
        self._accepted: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        work = self._ray.remote(num_cpus=self.threads, max_retries=0)(_connect)
        self._tasks = [work.remote(self._listener.address, self._key) for _ in range(count)]
        self.connections: list[Any] = []
        try:
            for _ in range(count):
                self.connections.append(self._next())
        except BaseException:
            self.end()
            raise

    def _check_size(self, count: int) -> None:
        """Tasks that do not fit would wait forever."""
        has, needed = int(self._ray.cluster_resources().get("CPU", 0)), count * self.threads
        if has < needed:
            raise UsageError(f"the Ray cluster has {has} CPUs, but {count} workers with {self.threads} "
                             f"thread{'s' * (self.threads != 1)} each need {needed}",
                             hint="use fewer workers, or ray.init(num_cpus=...)")

    def _accept(self) -> None:
        while not self._stops:
            try:
                self._accepted.put(self._listener.accept())
            except Exception:
                continue  # somebody else, or the end

    def _next(self) -> Any:
        while True:
            try:
                return self._accepted.get(timeout=0.2)
            except queue.Empty:
                ended, _ = self._ray.wait(self._tasks, timeout=0)
                if ended:
                    raise EnvironmentFailure("a worker ended before it connected: " + self._reason(ended[0])) from None

    def _reason(self, task: Any) -> str:
        try:
            self._ray.get(task)
        except Exception as error:
            return (str(error).strip().splitlines() or [type(error).__name__])[-1]
        return "it was closed"

    def why(self, number: int) -> str:
        del number  # tasks connect in any order
        return "closed its connection"

    def end(self) -> None:
        self._stops = True
        with contextlib.suppress(OSError), socket.create_connection(self._listener.address, timeout=5):
            pass
        self._thread.join(5)
        self._listener.close()
        ended, left = self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=5)
        for task in left:
            self._ray.cancel(task, force=True)
        del ended


def _connect(address: Any, key: bytes) -> None:
    """A Ray task: works for the process at the address."""
    from multiprocessing.connection import Client
    _worker.serve(Client(address, authkey=key))


class _Workers:
    """Workers and their connections, for use in a `with` statement."""

    def __init__(self, count: int, over: str, threads: int) -> None:
        if count < 0:
            raise refuse("workers", "a number that is not negative", count)
        self._cluster: Any = (_Tasks if _is_over_ray(over) else _Processes)(count, threads)
        self.connections: list[Any] = self._cluster.connections
        self.threads: int = self._cluster.threads

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self.connections:
            connection.close()
        self._cluster.end()

    def _lost(self, number: int) -> DemiError:
        return EnvironmentFailure(f"worker {number + 1} of {len(self.connections)} "
                                  f"{self._cluster.why(number)} before its work was done")

    def send(self, number: int, kind: bytes, content: Any) -> None:
        try:
            _worker.send(self.connections[number], kind, content)
        except (EOFError, OSError):
            if not self._has_answer(number):  # an error is said there
                raise self._lost(number) from None

    def _has_answer(self, number: int) -> bool:
        try:
            return bool(self.connections[number].poll())
        except (EOFError, OSError):
            return False

    def receive(self, number: int, kind: bytes) -> Any:
        """Returns what a worker sent; raises what ended it."""
        try:
            found, content = _worker.receive(self.connections[number])
        except (EOFError, OSError):
            raise self._lost(number) from None
        if found == _worker.ERROR:
            raise content
        if found != kind:
            raise EnvironmentFailure("the workers run different versions of demi")
        return content

    def combine(self, words: Any) -> None:
        """The bitwise or of this process's words and those of all workers, in all of them."""
        for number in range(len(self.connections)):
            _worker.add_words(words, self.receive(number, _worker.WORDS))
        message = _worker.WORDS + words.tobytes()
        for number, connection in enumerate(self.connections):
            try:
                connection.send_bytes(message)
            except OSError:
                raise self._lost(number) from None


def _sent(model: Any) -> Any:
    """Returns a model as it is sent to workers: a path as an absolute one."""
    if isinstance(model, Session):
        return model
    return os.path.abspath(model) if is_path(model) else held(model)


def _sent_data(data: Any) -> Any:
    """The same for data of `convert` and `search`."""
    if isinstance(data, (str, os.PathLike)) and data != "random":
        return os.path.abspath(data)
    return data


@contextlib.contextmanager
def _shared(call: str, model: Model, how: Mapping[str, Any], workers: int, over: str, threads: int) -> Iterator[None]:
    """Calls of this process are shared with workers, which make the same."""
    with _Workers(workers, over, threads) as team:
        parts = workers + 1
        for number in range(workers):
            team.send(number, _worker.JOB, {"call": call, "model": _sent(model), "how": how, "part": number + 1,
                                            "parts": parts, "threads": team.threads})
        with sharing(Share(0, parts, team.combine, team.threads)):
            yield
        for number in range(workers):
            team.receive(number, _worker.RESULT)


# ---- converting and searching -------------------------------------------------------------------------


@checked
def convert(model: Model, out: Path | None = None, *, to: str = "float16", verify: Data = None,
            max_error: float | None = None, calibrate: Data = None, calibration: str = "best",
            inputs: Mapping[str, Any] | None = None, workers: int = 1, over: str = "auto", threads: int = 0,
            progress: Progress | None = None, data_root: Folder | None = None, **options: Any) -> Any:
    """Converts a model as `demi_onnx.convert` does, with the same result: the sets of inputs that it is calibrated,
    rounded, and verified on are shared with `workers` more processes. `threads` is the number of threads of each;
    0 means 1 on a Ray cluster, and on this machine its CPUs divided by the number of processes. `progress` is called in
    this process, for its own part."""
    how = {"to": to, "verify": _sent_data(verify), "max_error": max_error, "calibrate": _sent_data(calibrate),
           "calibration": calibration, "inputs": inputs, "data_root": data_root, **options}
    with _shared("convert", model, how, workers, over, threads):
        return _convert.convert(model, out, progress=progress, **how)


@checked
def calibrate(model: Model, data: Data, *, to: str = "int8", calibration: str = "best",
              inputs: Mapping[str, Any] | None = None, workers: int = 1, over: str = "auto", threads: int = 0,
              data_root: Folder | None = None, **options: Any) -> list[str]:
    """Measures calibration ranges on `data`, and returns them for `ranges`, an option of `demi_onnx.convert`. They are
    those that `demi_onnx.convert` measures for the same options and `equalize="never"`: ranges of an equalized model
    hold only with its channel scales. Weights are not rounded on the data."""
    how = {"to": to, "calibrate": _sent_data(data), "calibration": calibration, "inputs": inputs,
           "data_root": data_root, "rounding": "nearest", "equalize": "never", **options}
    with _shared("convert", model, how, workers, over, threads):
        return _convert.measure(model, **how)


@checked
def search(model: Model, *, data: Data = None, calibration: Data = None, holdout: Data | float | None = None,
           workers: int = 1, over: str = "auto", threads: int = 0, data_root: Folder | None = None,
           **options: Any) -> SearchResult:
    """Searches as `demi_onnx.search` does, with the same result and options: the sets of inputs and the groups are shared
    with `workers` more processes. Functions among the options (`progress`, `score`, `holdout_score`) are called in
    this process."""
    if options.get("sensitivity_score") is not None:
        raise UsageError("sensitivity_score is called in every process", hint="use demi_onnx.search, or sensitivity='measured'")
    _convert.ConvertOptions({name: value for name, value in options.items() if name not in _SEARCH_OPTIONS})
    how = {"data": _sent_data(data), "calibration": _sent_data(calibration),
           "holdout": holdout if isinstance(holdout, (int, float)) else _sent_data(holdout), "data_root": data_root,
           **options}
    theirs = {name: value for name, value in how.items() if name not in ("progress", "score", "holdout_score")}
    for name in ("score", "holdout_score"):
        if how.get(name) is not None:
            theirs[name] = _search.unused_score
    with _shared("search", model, theirs, workers, over, threads):
        return _search.search(model, **how)


_SEARCH_OPTIONS = {name for name in inspect.signature(_search.search).parameters if name != "options"}


# ---- running ------------------------------------------------------------------------------------------


def read_set(item: Any, names: Sequence[str]) -> Feeds:
    """Returns a set of inputs as arrays: it is that, or the path of an .npz, or of an .npy for one input."""
    if not isinstance(item, (str, os.PathLike)):
        return item  # type: ignore[no-any-return]
    try:
        found = np.load(item, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {names[0]: found}
        with found:
            return {name: found[name] for name in found.files if name in names}
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"cannot read {os.fspath(item)!r}: {text}", file=os.fspath(item)) from None


def _items_of(data: Any) -> Iterable[Any]:
    """Sets of inputs, one by one: those of an iterable, or the .npz and .npy files of a folder."""
    if isinstance(data, Mapping):
        return [data]
    if not isinstance(data, (str, os.PathLike)):
        return data  # type: ignore[no-any-return]
    folder = os.path.abspath(data)
    if not os.path.isdir(folder):
        return [folder]
    found = sorted(name for name in os.listdir(folder) if name.endswith((".npz", ".npy")) and name[0] != ".")
    if not found:
        raise UsageError(f"{os.fspath(data)!r} has no .npz or .npy files", file=os.fspath(data))
    return [os.path.join(folder, name) for name in found]


@checked
def map(session: "Session | Model", data: Any, *, outputs: Sequence[str] | None = None, workers: int = 1,
        over: str = "auto", threads: int = 0) -> Iterator[list[Any]]:
    """Runs a model on each set of inputs of `data` by `workers` processes, and yields the outputs of each, as
    `Session.run` returns them, in the order of the sets.

    `session` is a Session, or a model or plan as for one. `data` is a folder of .npz files (or of .npy files, for a
    model with one input), or an iterable of dictionaries of arrays, or of paths of such files. It may be endless: only
    a few sets of each worker are held at a time."""
    if workers < 1:
        raise refuse("workers", "a positive number", workers)
    return _mapped(session, iter(_items_of(data)), outputs, workers, over, threads)


def _mapped(session: Any, items: Iterator[Any], outputs: Sequence[str] | None, workers: int, over: str,
            threads: int) -> Iterator[list[Any]]:
    with _Workers(workers, over, threads) as team:
        job = {"call": "map", "model": _sent(session), "outputs": outputs, "threads": team.threads}
        for number in range(workers):
            team.send(number, _worker.JOB, job)
        waiting: deque[int] = deque()
        for count, item in enumerate(items):
            if len(waiting) == workers * _WINDOW:
                yield team.receive(waiting.popleft(), _worker.RESULT)
            team.send(count % workers, _worker.ITEM,
                      os.path.abspath(item) if isinstance(item, (str, os.PathLike)) else item)
            waiting.append(count % workers)
        while waiting:
            yield team.receive(waiting.popleft(), _worker.RESULT)
        for number in range(workers):
            team.send(number, _worker.END, None)


__all__ = ["calibrate", "convert", "map", "search"]
