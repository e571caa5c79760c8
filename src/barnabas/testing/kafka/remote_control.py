"""`RemoteControl`: what ``barnabas serve --control`` gives its broker, and the port for it."""

import asyncio
import dataclasses

from barnabas.core.config import Config
from barnabas.node.broker_node import BrokerNode
from barnabas.node.environment import of_machine
from barnabas.testing.kafka.clock import MovableClock
from barnabas.testing.kafka.control import Control, ControlServer
from barnabas.testing.kafka.faulty import FaultyApis
from barnabas.testing.kafka.full_disk import FillableDisk
from barnabas.testing.kafka.planted import PlantedFaults

_ANYWHERE = frozenset({"", "0.0.0.0", "::"})


class RemoteControl:
    """The environment of the broker with faults in it, and the control port once the broker runs."""

    def __init__(self, config: Config, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self._loop = loop
        self._port = port
        self._faults = PlantedFaults()
        self._apis = FaultyApis(self._faults, config["broker.id"])
        self._clock = MovableClock(loop)
        self._disk = FillableDisk()
        self._server: ControlServer | None = None
        self.environment = dataclasses.replace(
            of_machine(config, loop), clock=self._clock, filesystem=self._disk, apis=self._apis
        )

    def open(self, node: BrokerNode) -> str:
        """Listens; the URL of the control port. Raises OSError where the port is taken."""
        self._apis.broker_id = node.broker_id  # it may have been given by the store
        endpoint = node.endpoints[-1]
        host = "127.0.0.1" if endpoint.host in _ANYWHERE else endpoint.host
        control = Control(self._faults, f"{host}:{endpoint.port}", self._advance, self._disk)
        server = self._server = ControlServer(control, self._port)
        server.start()
        return server.url

    def _advance(self, seconds: float) -> None:
        async def move() -> None:
            self._clock.advance(seconds * 1000)

        asyncio.run_coroutine_threadsafe(move(), self._loop).result()

    def close(self) -> None:
        """Ends the port. Not on the loop's thread: a client of the port may be closing."""
        if self._server is not None:
            self._server.close()

    def __repr__(self) -> str:
        return f"<RemoteControl {self._server.url if self._server else 'not open'}>"
