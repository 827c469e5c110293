# SPDX-License-Identifier: Apache-2.0
"""Runs a function over items in worker processes that may die.

An engine can crash on a model; then the worker's death is that item's result and a new worker takes
its place. An item that takes too long ends the same way. A worker that can't begin, as a library is
missing, ends the program with one line.
"""

import contextlib
import dataclasses
import faulthandler
import multiprocessing
import multiprocessing.connection
import sys
import time
from collections.abc import Callable, Iterator

ITEM_TIMEOUT_S = 300


@dataclasses.dataclass
class _NotBegun:
    why: str


def _serve(pipe: multiprocessing.connection.Connection, setup: Callable, args: tuple) -> None:
    faulthandler.enable()  # where it was when it died goes to stderr
    try:
        work = setup(*args)
    except Exception as error:  # noqa: BLE001
        pipe.send(_NotBegun(f"{type(error).__name__}: {error}"))
        return
    while (item := pipe.recv()) is not None:
        pipe.send(work(item))


class _Worker:
    def __init__(self, setup: Callable, args: tuple) -> None:
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=_serve, args=(other, setup, args),
                                               daemon=True)
        self.process.start()
        other.close()
        self.item, self.since = None, 0.0

    def give(self, item: object) -> None:
        self.item, self.since = item, time.monotonic()
        with contextlib.suppress(OSError):  # of one that is gone: what it said is read next
            self.pipe.send(item)

    def end(self) -> None:
        try:
            self.pipe.send(None)
        except OSError:
            pass
        self.process.join(1)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def run(items: list, setup: Callable, args: tuple, processes: int) -> Iterator[tuple]:
    """Yields (item, result, "") or (item, None, how its worker ended), in order of completion.

    setup(*args) runs once in each worker and returns the function that handles one item.
    """
    queue, workers = list(reversed(items)), []
    try:
        for _ in range(min(processes, len(items))):
            worker = _Worker(setup, args)
            workers.append(worker)
            worker.give(queue.pop())
        while busy := [w for w in workers if w.item is not None]:
            multiprocessing.connection.wait([w.pipe for w in busy], timeout=1)
            for worker in busy:
                yield from _collect(worker, workers)
                if worker in workers and worker.item is None and queue:
                    worker.give(queue.pop())
            while queue and len(workers) < processes:
                worker = _Worker(setup, args)
                workers.append(worker)
                worker.give(queue.pop())
    finally:
        for worker in workers:
            worker.end()


def _collect(worker: _Worker, workers: list) -> Iterator[tuple]:
    """The worker's result if there is one; a dead or stuck worker leaves the list."""
    item = worker.item
    late = time.monotonic() - worker.since > ITEM_TIMEOUT_S
    if not late and not worker.pipe.poll():
        return
    try:
        if late:
            raise EOFError
        result = worker.pipe.recv()
        if isinstance(result, _NotBegun):
            sys.exit(f"workers can't begin: {result.why}")
    except (EOFError, ConnectionError):
        if not late:
            worker.process.join(1)
        code = worker.process.exitcode
        worker.process.kill()
        worker.process.join()
        workers.remove(worker)
        how = f"no end after {ITEM_TIMEOUT_S} s" if late else f"the worker process died, exit code {code}"
        worker.item = None
        yield item, None, how
        return
    worker.item = None
    yield item, result, ""
