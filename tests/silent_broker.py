"""Why a broker of this process did not answer in time, in one line that stands in the summary of a run."""

import contextlib
import socket
import struct
import sys
import traceback
from pathlib import Path
from typing import Any

from barnabas.testing import plugin

LOOK_S = 3
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 0, 0)  # the request of the oldest clients, by nobody


def look() -> str:
    """What the broker of the fixture ``kafka`` is doing: its thread, its listeners, what its loop watches,
    and whether it answers now. Nothing where there is none.
    """
    if not plugin._session_kafka:
        return ""
    kafka: Any = plugin._session_kafka[0]
    thread, loop = kafka._thread._thread, kafka._thread._loop
    frame = sys._current_frames().get(thread.ident)
    stack = [f"{Path(one.filename).name}:{one.lineno}" for one in traceback.extract_stack(frame)[-4:]]
    broker = next(iter(kafka._brokers.values()))
    parts = [f"thread {'runs' if thread.is_alive() else 'has ended'} in {' '.join(stack)}"]
    # The broker's own thread may be in the middle of anything: what cannot be read is left out.
    with contextlib.suppress(Exception):
        parts += [repr(broker.node._server), f"clock {kafka._clock}", repr(loop._poller)]
        listeners = [one._socket.fileno() for one in broker.node._server.listeners.values()]
        parts.append(f"listens at {listeners}, watches {sorted(_watched(loop._poller._epoll.fileno()))}")
    parts.append(_answer(broker.own_port))
    return "; ".join(parts)


def _watched(epoll: int) -> list[int]:
    """What the system says that it watches."""
    lines = Path(f"/proc/self/fdinfo/{epoll}").read_text().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("tfd:")]


def _answer(port: int) -> str:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=LOOK_S) as sock:
            sock.sendall(_API_VERSIONS)
            return "it answers now" if sock.recv(4) else "it closes connections"
    except OSError as error:
        return f"no answer: {error}"
