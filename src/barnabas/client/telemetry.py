"""`Telemetry`: a client pushes its metrics to a broker that asks for them (KIP-714).

Theory of operation
-------------------
The client asks for its subscription: which metrics, how often. Nothing is pushed where it wants none, or
where the broker does not know the request; then it is asked again after a while. A push that is refused
because the subscription was changed leads to a new question at once; one that is throttled or too large is
not repeated, and the next comes at its time. Any other refusal ends it for good. When the client closes, it
pushes once more. (``ClientTelemetryReporter``)

Nothing here may disturb the client: no failure is raised, and each is one line at DEBUG. A client that is
dropped without a close must still be found by the garbage collector, so the task has weak references to it.
"""

import asyncio
import math
import random
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from barnabas.client import otlp
from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientClosedError
from barnabas.client.home_loop import end
from barnabas.client.producer_metrics import Metrics
from barnabas.core.errors import BarnabasError, ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, Uuid
from barnabas.network.errors import DisconnectedError, UnsupportedVersionError
from barnabas.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from barnabas.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

_PREFIX: Final = "org.apache.kafka."
_UNASKED_S: Final = 300.0
"""How long until a broker that does not know the request, or does not answer, is asked again."""
_UNANSWERED_S: Final = 1.0
_LAST_PUSH_S: Final = 1.0
_NOT_REPEATED: Final = frozenset({ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.TELEMETRY_TOO_LARGE})
_ASK_AGAIN: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})

_log = EventLog("client.telemetry")


class Telemetry:
    """That of one client; lives on its event loop."""

    def __init__(
        self, cluster: Cluster, metrics: Callable[[], Metrics], labels: Mapping[str, str], *, enabled: bool
    ) -> None:
        self._cluster = weakref.ref(cluster)
        self._metrics = weakref.WeakMethod(metrics)
        self._labels = labels
        self._enabled = enabled
        self._task: asyncio.Task[None] | None = None
        self._instance_id: Uuid = ZERO_UUID
        self._subscription: GetTelemetrySubscriptionsResponse | None = None
        """The one that metrics are pushed for; None where none are wanted."""
        self._pushed: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        """How far each counter had come at the last push that was taken."""
        self._begun_ns = self._pushed_ns = time.time_ns()
        self._pushing = asyncio.Lock()
        """Held until a push is answered: what it says the last one, of a client that closes, leaves out."""

    def begin(self) -> None:
        """The client may be connected by now; harmless when repeated."""
        if self._enabled and self._task is None and self._there().metadata.brokers:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _there(self) -> Cluster:
        """The client's cluster; raises ClientClosedError where the client was dropped."""
        cluster = self._cluster()
        if cluster is None:
            raise ClientClosedError("The client was dropped")
        return cluster

    async def _run(self) -> None:
        try:
            while True:
                await self._serve(await self._ask())
        except (BarnabasError, OSError) as error:
            _log.debug("telemetry.ended", error=error)

    async def _ask(self) -> GetTelemetrySubscriptionsResponse:
        """What is wanted; asks until a broker says so. Raises BarnabasError where it refuses for good."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self._instance_id)
        while True:
            pause_s = _UNASKED_S
            try:
                answer = await self._there().ask_any(request, GetTelemetrySubscriptionsResponse)
            except UnsupportedVersionError:
                pass
            except (DisconnectedError, OSError) as error:
                _log.debug("telemetry.unanswered", error=error)
                pause_s = _UNANSWERED_S
            else:
                code = ErrorCode.of(answer.error_code)
                if code is ErrorCode.NONE:
                    self._instance_id = answer.client_instance_id
                    return answer
                if code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                    raise BarnabasError(f"no subscription: {code.name}")
                pause_s = answer.push_interval_ms / 1000 or pause_s
            await asyncio.sleep(pause_s)

    async def _serve(self, subscription: GetTelemetrySubscriptionsResponse) -> None:
        """Pushes as the subscription wants, until another one is to be asked for."""
        interval_s = subscription.push_interval_ms / 1000
        if not subscription.requested_metrics:
            self._subscription = None
            await asyncio.sleep(interval_s)
            return
        self._subscription = subscription
        # The clients of a cluster that has just started should not push all at once.
        pause_s = interval_s * random.uniform(0.5, 1.5)
        while True:
            await asyncio.sleep(pause_s)
            pause_s = interval_s
            try:
                async with self._pushing:
                    code = await self._push(subscription, terminating=False)
            except (DisconnectedError, OSError) as error:
                _log.debug("telemetry.unanswered", error=error)
                continue
            if code in _ASK_AGAIN:
                return
            if code is not ErrorCode.NONE and code not in _NOT_REPEATED:
                raise BarnabasError(f"a push was refused: {code.name}")

    def _shown(self) -> Metrics:
        metrics = self._metrics()
        return {} if metrics is None else metrics()

    async def _push(self, wanted: GetTelemetrySubscriptionsResponse, *, terminating: bool) -> ErrorCode:
        now_ns = time.time_ns()
        shown = list(chosen(self._shown(), wanted.requested_metrics))
        counters = {(one.name, tuple(one.labels.items())): one.value for one in shown if one.is_counter}
        is_delta = wanted.delta_temporality
        if is_delta:
            shown = [
                one._replace(value=one.value - self._pushed.get((one.name, tuple(one.labels.items())), 0.0))
                if one.is_counter
                else one
                for one in shown
            ]
        data = otlp.metrics_data(
            shown,
            self._labels,
            since_ns=self._pushed_ns if is_delta else self._begun_ns,
            now_ns=now_ns,
            temporality=otlp.DELTA if is_delta else otlp.CUMULATIVE,
        )
        request = PushTelemetryRequest(
            client_instance_id=self._instance_id,
            subscription_id=wanted.subscription_id,
            terminating=terminating,
            metrics=data,
        )
        answer = await self._there().ask_any(request, PushTelemetryResponse)
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._pushed, self._pushed_ns = counters, now_ns
        return code

    async def close(self) -> None:
        """Pushes a last time, where metrics are wanted, for a second at most."""
        if self._task is None:
            return
        ended = self._task.done()
        try:
            async with asyncio.timeout(_LAST_PUSH_S), self._pushing:
                await end(self._task)
                if self._subscription is not None and not ended:
                    await self._push(self._subscription, terminating=True)
        except (BarnabasError, OSError) as error:
            _log.debug("telemetry.unanswered", error=error)
        finally:
            await end(self._task)


def chosen(metrics: Metrics, requested: Sequence[str]) -> Iterator[otlp.Value]:
    """Those of the metrics whose names begin with one of these; values that there are not are left out."""
    prefixes = tuple("" if one == "*" else one for one in requested)
    for group, values in metrics.items():
        noun, _, place = group.partition(".")
        labels = _labels(place)
        for name, value in values.items():
            full = f"{_PREFIX}{noun.removesuffix('-metrics')}.{name}".replace("-", ".")
            if full.startswith(prefixes) and not math.isnan(value):
                yield otlp.Value(full, float(value), labels, name.endswith("-total"))


def _labels(place: str) -> dict[str, str]:
    """Of a topic, or ``topic:partition``."""
    if not place:
        return {}
    topic, _, partition = place.partition(":")
    return {"topic": topic, "partition": partition} if partition else {"topic": topic}
