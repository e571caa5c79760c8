"""What all nouns of the admin client share:
the cluster, the deadline of a call, requests to the controller.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.client.cluster import Cluster, Versions
from barnabas.client.retries import Deadline
from barnabas.core.config import INT_MAX, Config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.errors import DisconnectedError
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

R = TypeVar("R", bound=Response)


class AdminContext:
    """The connection of an admin client and its time-outs."""

    def __init__(self, config: Config, cluster: Cluster) -> None:
        self.cluster = cluster
        self.timeout_ms: int = config["default.api.timeout.ms"]
        self.request_timeout_ms: int = config["request.timeout.ms"]

    def deadline(self, timeout_ms: float | None) -> Deadline:
        """The deadline of a call: the caller's, or ``default.api.timeout.ms``."""
        return Deadline(self.timeout_ms if timeout_ms is None else timeout_ms)

    async def send_to_controller(
        self,
        request: Request,
        answer: type[R],
        deadline: Deadline,
        codes_of: Callable[[R], Iterable[int]],
        *,
        versions: Versions | None = None,
    ) -> R:
        """One request to the controller, which is looked up again on NOT_CONTROLLER."""

        async def attempt() -> R:
            if self.cluster.metadata.controller_id not in self.cluster.metadata.brokers:
                await self.cluster.refresh()
            controller = self.cluster.metadata.controller_id
            if controller not in self.cluster.metadata.brokers:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
            try:
                response = await self.cluster.send(controller, request, answer, versions=versions)
            except (DisconnectedError, OSError):
                await self.cluster.refresh()
                raise
            if ErrorCode.NOT_CONTROLLER in codes_of(response):
                await self.cluster.refresh()
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return response

        return await self.cluster.retrying(attempt, deadline, "The controller did not answer")

    async def send_to(self, broker: int | None, request: Request, answer: type[R], deadline: Deadline) -> R:
        """One request to this broker, or with None to any, repeated until it is answered."""
        if broker is None:
            return await self.cluster.send_to_any(request, answer, deadline)

        async def attempt() -> R:
            if broker not in self.cluster.metadata.brokers:
                await self.cluster.refresh()
            return await self.cluster.send(broker, request, answer)

        return await self.cluster.retrying(attempt, deadline, f"Broker {broker} did not answer")

    async def metadata(self, topics: Iterable[str] | None, deadline: Deadline) -> MetadataResponse:
        """Fresh metadata of these topics, or of all; never creates one."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await self.cluster.send_to_any(request, MetadataResponse, deadline)
        self.cluster.update(response, complete=topics is None)
        return response


def whole_ms(time_ms: float) -> int:
    """A time in the form of requests, which hold 24 days at most."""
    return int(max(0, min(time_ms, INT_MAX)))


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """The error that a code stands for; None for no error."""
    return KafkaError(ErrorCode.of(code), message or None) if code else None
