"""`RunningBroker`: one broker of a `Kafka`, through its lives: it may end and come back at the same port."""

import asyncio
import dataclasses
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from barnabas.core.broker_config import WITHOUT_FILE, broker_config
from barnabas.node.broker_node import BrokerNode
from barnabas.node.environment import METADATA_FILE, of_machine
from barnabas.testing.kafka.clock import MovableClock
from barnabas.testing.kafka.faulty import FaultyApis
from barnabas.testing.kafka.full_disk import FillableDisk
from barnabas.testing.kafka.planted import PlantedFaults
from barnabas.testing.kafka.users import CLIENTS, OWN

FOR_TESTS: Final[Mapping[str, str]] = {
    # A first consumer waits for no others, partitions are few, and nothing is synced: a test is short.
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "barnabas.metadata.synchronous": "NORMAL",
    "log.cleaner.enable": "false",
    "num.partitions": "1",
}
"""What a broker of a test has beyond the values that Kafka ships; `Kafka(settings=...)` goes over it."""


class RunningBroker:
    """A broker, its folder and its port. Its methods belong on the loop of the brokers."""

    def __init__(
        self,
        broker_id: int,
        folder: Path,
        settings: Mapping[str, str],
        faults: PlantedFaults,
        *,
        port: int = 0,
        log_in: bool = False,
    ) -> None:
        """With `log_in` there is a listener for clients, and one for whoever owns the broker."""
        self.id = broker_id
        self.port = port
        self.own_port = port
        """That of a listener without log-ins."""
        self.disk = FillableDisk()
        self._log_in = log_in
        self._folder = folder
        self._settings = settings
        self._faults = faults
        self._node: BrokerNode | None = None
        self._held: socket.socket | None = None

    @property
    def runs(self) -> bool:
        return self._node is not None

    @property
    def node(self) -> BrokerNode | None:
        """The node itself, while it runs."""
        return self._node

    async def start(self, clock: MovableClock) -> None:
        """Starts it; raises what `BrokerNode.start` raises. Harmless while it runs."""
        if self._node is not None:
            return
        config = broker_config(
            {
                **WITHOUT_FILE,
                **FOR_TESTS,
                **self._settings,
                "broker.id": str(self.id),
                "log.dirs": str(self._folder / f"broker-{self.id}"),
                "barnabas.metadata.path": str(self._folder / METADATA_FILE),
                "listeners": self._listeners(),
            }
        )
        # The collector is the program's own, which goes on when the broker has ended.
        environment = dataclasses.replace(
            of_machine(config, asyncio.get_running_loop()),
            clock=clock,
            filesystem=self.disk,
            settle=lambda: None,
            apis=FaultyApis(self._faults, self.id),
        )
        node = BrokerNode(config, environment)
        if self._held is not None:
            self._held.close()
            self._held = None
        await node.start()
        self._node = node
        self.port, self.own_port = node.endpoints[0].port, node.endpoints[-1].port

    def _listeners(self) -> str:
        """At the ports that it had before."""
        if not self._log_in:
            return f"PLAINTEXT://127.0.0.1:{self.port}"
        return f"{CLIENTS}://127.0.0.1:{self.port},{OWN}://127.0.0.1:{self.own_port}"

    async def stop(self) -> None:
        """Ends it in order. Harmless when it does not run."""
        node, self._node = self._node, None
        if node is not None:
            await node.stop()

    async def kill(self) -> None:
        """Ends it as if its process had died. Harmless when it does not run."""
        node, self._node = self._node, None
        if node is not None:
            await node.kill()

    def hold_port(self) -> None:
        """Keeps the port while the broker is down, so that it comes back there; connections are refused."""
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind(("127.0.0.1", self.port))
        except OSError:
            held.close()
        else:
            self._held = held

    def release_port(self) -> None:
        """The broker does not come back."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def __repr__(self) -> str:
        return f"<RunningBroker {self.id} port={self.port} {'runs' if self.runs else 'is down'}>"
