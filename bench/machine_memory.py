"""What memory a machine of N brokers takes under a load, beside what docs/sizing.md computes for it.

python -m bench.machine_memory 1:0:1:0 2:2000:2:50 [--compiled PATH]

A load is brokers, partitions, replicas of each, and connections that have asked once, spread over the
brokers. Shared pages count once, the parent included.
"""

import argparse
import contextlib
import resource
import socket
import struct
import time
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.admin import Admin, NewTopic
from barnabas.protocol.api import ApiKey
from bench.machine import SETTLE_S, machine
from bench.mood import mood_meter
from bench.processes import proportional_mb, tree_of
from bench.sides import CHECKOUT, Installation

FIRST_MB: Final = 47
"""The parent and the first broker; these four are the table of docs/sizing.md."""
FURTHER_MB: Final = 16
COPIES_MB: Final = 7
"""A thousand copies of partitions."""
CONNECTIONS_MB: Final = 4
"""A thousand connections."""
PARTITIONS_A_TOPIC_MAX: Final = 1000
# Size, key, version, correlation id, and a client id that is null.
_API_VERSIONS: Final = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 1, -1)
_SIZE: Final = struct.Struct(">i")


class Load(NamedTuple):
    """What a machine holds."""

    brokers: int
    partitions: int
    replicas: int
    connections: int

    @property
    def computed_mb(self) -> float:
        copies, connections = self.partitions * self.replicas / 1000, self.connections / 1000
        machine_mb = FIRST_MB + FURTHER_MB * (self.brokers - 1)
        return machine_mb + COPIES_MB * copies + CONNECTIONS_MB * connections


def measured_mb(load: Load, installation: Installation) -> float:
    """Of a new machine that has the load, and rests."""
    with machine(load.brokers, installation) as one, contextlib.ExitStack() as opened:
        with Admin(one.address) as admin:
            for first in range(0, load.partitions, PARTITIONS_A_TOPIC_MAX):
                partitions = min(PARTITIONS_A_TOPIC_MAX, load.partitions - first)
                admin.topics.create(NewTopic(f"held-{first}", partitions, load.replicas))
        for number in range(load.connections):
            port = one.ports[number % load.brokers]
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            _ask(connection)
        time.sleep(SETTLE_S)
        return proportional_mb(tree_of(one.process.pid))


def _ask(connection: socket.socket) -> None:
    connection.sendall(_API_VERSIONS)
    with connection.makefile("rb") as answer:
        (size,) = _SIZE.unpack(answer.read(_SIZE.size))
        answer.read(size)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.machine_memory", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("loads", nargs="+", metavar="BROKERS:PARTITIONS:REPLICAS:CONNECTIONS")
    parser.add_argument("--compiled", type=Path, default=CHECKOUT, metavar="PATH", help="another tree")
    asked = parser.parse_args()
    installation = Installation.at(asked.compiled)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(f"Barnabas, {installation.form}")
    print("| brokers | partitions | replicas | connections | measured | computed |")
    print("|---|---|---|---|---|---|")
    with mood_meter() as meter:
        before = meter.look()
        for text in asked.loads:
            load = Load(*map(int, text.split(":")))
            measured = measured_mb(load, installation)
            print(
                f"| {' | '.join(map(str, load))} | {measured:.0f} MB | {load.computed_mb:.0f} MB |",
                flush=True,
            )
        print(f"The machine: {before} to {meter.look()}.")


if __name__ == "__main__":
    main()
