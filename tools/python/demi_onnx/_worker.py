# SPDX-License-Identifier: Apache-2.0
"""A process that works for another one: it gets a job through a connection, and answers.

Messages are bytes, of which the first says what the others are: J a job, I an item, N no more items; and from the
worker R a result, W words to combine, E the exception that ended it. The process that a worker
works for closes the connection when it needs nothing more; a worker whose connection is closed ends.
"""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing.connection import Connection
from typing import Any, Callable, Mapping

import numpy as np

from ._errors import EnvironmentFailure

JOB, ITEM, END, RESULT, WORDS, ERROR = b"J", b"I", b"N", b"R", b"W", b"E"
_LOST = (EOFError, OSError)


def send(connection: Any, kind: bytes, content: Any) -> None:
    connection.send_bytes(kind + pickle.dumps(content, pickle.HIGHEST_PROTOCOL))


def receive(connection: Any) -> tuple[bytes, Any]:
    """Returns the kind of a message and what it has; words as bytes."""
    message = connection.recv_bytes()
    kind = message[:1]
    return kind, message[1:] if kind == WORDS else pickle.loads(message[1:]) if len(message) > 1 else None


def add_words(words: Any, other: bytes) -> None:
    """Adds another process's words by a bitwise or."""
    if len(other) != words.nbytes:
        raise EnvironmentFailure("the workers run different versions of demi")
    np.bitwise_or(words, np.frombuffer(other, np.uint64), out=words)


def _combine_by(connection: Any) -> Callable[[Any], None]:
    def combine(words: Any) -> None:
        connection.send_bytes(WORDS + words.tobytes())
        kind, other = receive(connection)
        if kind != WORDS:
            raise EOFError
        words[:] = np.frombuffer(other, np.uint64)
    return combine


def _share(connection: Any, what: Mapping[str, Any]) -> None:
    """Takes part in a call: the results are those of the process that asked for it."""
    from . import _convert, _search
    from ._share import Share, sharing
    calls: dict[str, Callable[..., Any]] = {"convert": _convert.measure, "search": _search.search}
    with sharing(Share(what["part"], what["parts"], _combine_by(connection), what["threads"])):
        calls[what["call"]](what["model"], **what["how"])
    send(connection, RESULT, None)


def _map(connection: Any, what: Mapping[str, Any]) -> None:
    from .distributed import read_set
    from ._session import Session
    session = what["model"]
    if not isinstance(session, Session):
        session = Session(session, threads=what["threads"])
    names = [arg.name for arg in session.get_inputs()]
    while True:
        kind, item = receive(connection)
        if kind == END:
            return
        send(connection, RESULT, session.run(what["outputs"], read_set(item, names)))


def serve(connection: Any) -> None:
    """Does one job."""
    try:
        _, what = receive(connection)
        {"map": _map}.get(what["call"], _share)(connection, what)
    except _LOST:
        pass  # nobody waits for an answer
    except BaseException as error:
        try:
            send(connection, ERROR, error)
        except Exception:  # it cannot be pickled, or the connection is closed
            try:
                send(connection, ERROR, EnvironmentFailure(f"{type(error).__name__}: {error}"))
            except _LOST:
                pass
    finally:
        connection.close()


def main() -> None:
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that it works for ends it
    serve(Connection(int(sys.argv[1])))
    sys.stdout.flush()
    os._exit(0)  # what the library still holds ends with the process


if __name__ == "__main__":
    main()
