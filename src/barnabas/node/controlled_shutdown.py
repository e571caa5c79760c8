"""A broker that stops asks the controller to move its leaderships away (``KafkaServer.controlledShutdown``).

Not by the channels of `to_controller`: with a listener of the controller's own, those go to that listener,
while ControlledShutdown goes to the controller's inter-broker listener, through a client that lives only as
long as this.
"""

from typing import Any

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.network.errors import DisconnectedError
from barnabas.network.node_link import Node
from barnabas.network.selector import completed
from barnabas.node.channels import LocalBroker, Remote
from barnabas.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

_log = EventLog("node.controlled_shutdown")


class ControlledShutdown:
    """The request, and where it goes."""

    def __init__(
        self,
        broker_id: int,
        inter_broker_listener: str,
        metadata: MetadataCache,
        config: Config,
        clock: Clock,
        *,
        local: LocalBroker,
        remote: Remote,
    ) -> None:
        self._broker_id = broker_id
        self._listener = inter_broker_listener
        self._metadata = metadata
        self._config = config
        self._clock = clock
        self._local = local
        self._remote = remote
        self._controller: Node | None = None

    async def run(self, broker_epoch: int) -> bool:
        """Whether the broker leads nothing that another one could lead.
        Tries as often as the configuration says.
        """
        request = ControlledShutdownRequest(broker_id=self._broker_id, broker_epoch=broker_epoch)
        retries = self._config["controlled.shutdown.max.retries"]
        try:
            for attempt in range(1, retries + 1):
                reason = await self._attempt(request)
                if reason is None:
                    return True
                _log.warning("shutdown.not_handed_over", attempt=attempt, reason=reason)
                if attempt < retries:
                    await self._back_off()
        finally:
            await self._remote.close()
        _log.warning("shutdown.forced", tries=retries, leaderships="elected when this broker is gone")
        return False

    async def _back_off(self) -> None:
        over: Pending[None] = Pending()
        delay_ms = self._config["controlled.shutdown.retry.backoff.ms"]
        self._clock.call_later(delay_ms, lambda: over.complete(None))
        await completed(over)

    async def _attempt(self, request: ControlledShutdownRequest) -> str | None:
        """Why it did not succeed."""
        # A controller that the metadata no longer name is asked once more at the address where it was.
        self._controller = self._find_controller() or self._controller
        if self._controller is None:
            return "no controller is known at the moment"
        try:
            response: ControlledShutdownResponse = await completed(self._ask(self._controller, request))
        except DisconnectedError as error:
            self._remote.disconnect(self._controller.id)
            return str(error)
        except BarnabasError as error:
            return str(error)
        if response.error_code or response.remaining_partitions:
            return f"error {response.error_code}, {len(response.remaining_partitions)} partitions remain"
        return None

    def _find_controller(self) -> Node | None:
        broker = self._metadata.alive_broker(self._metadata.controller_id)
        return None if broker is None else broker.node(self._listener)

    def _ask(self, controller: Node, request: ControlledShutdownRequest) -> Pending[Any]:
        if controller.id == self._broker_id:
            return self._local.handle(request)
        return self._remote.request(controller, request)

    def __repr__(self) -> str:
        return f"<ControlledShutdown of {self._broker_id} by {self._controller}>"
