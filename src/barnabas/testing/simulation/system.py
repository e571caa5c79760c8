"""What stands in for the operating system while a world runs: clocks, sockets, the process's random numbers.

The edge of Barnabas is written against the operating system, as it should be: clients read `time.monotonic`
and open `socket.socket`. To run it unchanged, these few names mean the world's while a world runs in this
process, and no thread but the world's may look at them meanwhile.
"""

import random
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from barnabas.testing.simulation.loop import SimulatedLoop
from barnabas.testing.simulation.network import SimulatedNetwork, SimulatedSocket


@contextmanager
def stand_in(loop: SimulatedLoop, network: SimulatedNetwork, seed: int) -> Iterator[None]:
    """Inside, time is the loop's, sockets are the network's, and chance is the seed's."""

    def make_socket(*_: Any) -> SimulatedSocket:
        return SimulatedSocket.of_current_process(network)

    def wall_s() -> float:
        return loop.wall_ns() / 1e9

    before = random.getstate()
    random.seed(seed)
    try:
        with (
            mock.patch.object(time, "monotonic", loop.time),
            mock.patch.object(time, "time", wall_s),
            mock.patch.object(time, "time_ns", loop.wall_ns),
            mock.patch.object(socket, "socket", make_socket),
        ):
            yield
    finally:
        random.setstate(before)
