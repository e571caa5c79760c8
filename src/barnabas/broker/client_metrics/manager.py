"""`ClientMetricsManager`: which clients push metrics, and whether a push may be taken (KIP-714).

Theory of operation
-------------------
A client asks for its subscription (GetTelemetrySubscriptions), gets an id for itself if it has none, and then
pushes every `interval_ms`, naming the id of the subscription. That id is a checksum of what is asked for: it
differs once an operator has changed a subscription, and the client asks again. Nothing is stored. A broker
that does not know a client works out its subscription as if it had asked, so a client may come to any broker.

There is one `_Instance` for each client that was here lately. It goes when its connection is closed, when it
was silent for three intervals (a minute at least), and when there are `INSTANCES_MAX` others.

A client chooses its id, and one with ever new ids would never wait. So a connection, and an address, may
begin with so many ids a minute; Kafka has no such bound.
"""

import math
from collections import Counter, OrderedDict
from random import Random
from typing import Final, NamedTuple, Protocol

from barnabas.broker.client_metrics.subscriptions import ClientMetricsSubscriptions, TelemetryClient, Wanted
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, Uuid, random_uuid, uuid_text
from barnabas.core.pending import Pending
from barnabas.records.compression import Codec

_log = EventLog("broker.client_metrics")

ACCEPTED_COMPRESSION: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""What clients may choose from, the best first; they may send plain bytes, too."""
INSTANCES_MAX: Final = 16_384
NEW_OF_CONNECTION_MAX: Final = 8
"""Ids that one connection may begin with in a minute; a client has one."""
NEW_OF_ADDRESS_MAX: Final = 256
"""Those of all connections of one address. Whoever comes later waits for the next minute."""
MINUTE_MS: Final = 60_000
INSTANCE_LIFE_MS_MIN: Final = 60_000
INTERVALS_OF_SILENCE: Final = 3

_RESERVED_IDS: Final = (ZERO_UUID, bytes(15) + b"\x01")
_CODECS: Final = frozenset(Codec)
_MAY_ASK_AT_ONCE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After these a client has to ask for its subscription again, and need not wait for it."""


class Receiver(Protocol):
    """Takes what clients push (``ClientTelemetryReceiver``)."""

    def export(
        self, instance_id: str, client_id: str, codec: Codec, data: bytes, lifetime_ms: float
    ) -> Pending[None]:
        """Takes the metrics of one client, which count for this long; fails where it cannot."""


class ToldSubscription(NamedTuple):
    """What a client is told."""

    instance_id: Uuid
    wanted: Wanted


class _Instance:
    """A client, as long as it is known here (``ClientMetricsInstance``)."""

    __slots__ = (
        "client",
        "expires_ms",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "terminating",
        "version",
        "wanted",
    )

    def __init__(self, client: TelemetryClient, wanted: Wanted, version: int) -> None:
        self.client = client
        self.wanted = wanted
        self.version = version
        self.last_get_ms = -math.inf
        self.last_push_ms = -math.inf
        self.terminating = False
        self.last_error = ErrorCode.NONE
        self.expires_ms = math.inf

    @property
    def lifetime_ms(self) -> float:
        return max(INSTANCE_LIFE_MS_MIN, INTERVALS_OF_SILENCE * self.wanted.interval_ms)

    def may_get(self, now_ms: float) -> bool:
        """Whether an interval has passed since its last request; counts it if so."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.wanted.interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def may_push(self, now_ms: float) -> bool:
        """Whether it has asked since its last push, or an interval has passed; counts it if so.

        A client waits between half an interval and one and a half before its first push.
        """
        if not (
            self.last_get_ms > self.last_push_ms or now_ms - self.last_push_ms >= self.wanted.interval_ms
        ):
            return False
        self.last_push_ms = now_ms
        return True


class ClientMetricsManager:
    """Knows the clients that push, and takes what they push."""

    def __init__(
        self,
        subscriptions: ClientMetricsSubscriptions,
        receiver: Receiver,
        clock: Clock,
        rng: Random,
        *,
        bytes_max: int,
    ) -> None:
        self._subscriptions = subscriptions
        self._receiver = receiver
        self._clock = clock
        self._rng = rng
        self.bytes_max = bytes_max
        """The largest push, in bytes as sent (``telemetry.max.bytes``)."""
        self._instances: OrderedDict[Uuid, _Instance] = OrderedDict()
        """The one that was heard of last at the end."""
        self._minute = -1
        self._new: Counter[str | tuple[str, int]] = Counter()
        """How many began in this minute: by address, and by address and port."""
        self.throttled = 0
        """Requests that came before their time."""
        self.unknown_subscriptions = 0
        """Pushes for a subscription that is no longer the client's."""

    def get_subscription(self, instance_id: Uuid, client: TelemetryClient) -> ToldSubscription:
        """What a client is to push; it gets an id where it has none.

        Raises KafkaError THROTTLING_QUOTA_EXCEEDED before an interval has passed
        (``processGetTelemetrySubscriptionRequest``).
        """
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, client)
        # A client whose push was refused for its subscription or codec asks again at once.
        if not instance.may_get(self._clock.monotonic_ms()) and instance.last_error not in _MAY_ASK_AT_ONCE:
            raise self._too_early()
        instance.last_error = ErrorCode.NONE
        return ToldSubscription(instance_id, instance.wanted)

    def push(
        self,
        instance_id: Uuid,
        client: TelemetryClient,
        data: bytes,
        *,
        subscription_id: int,
        codec: int,
        terminating: bool,
    ) -> Pending[None]:
        """Takes what a client pushes (``processPushTelemetryRequest``).

        Raises KafkaError, or fails with it: INVALID_RECORD for what the receiver cannot read.
        """
        if instance_id in _RESERVED_IDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        instance = self._instance(instance_id, client)
        try:
            self._check(instance, data, subscription_id=subscription_id, codec=codec, terminating=terminating)
        except KafkaError as error:
            instance.last_error = error.code
            raise
        finally:
            instance.terminating = terminating
        instance.last_error = ErrorCode.NONE
        if not data:
            return Pending.of(None)
        taken: Pending[None] = Pending()

        def done(exported: Pending[None]) -> None:
            error = exported.error
            if error is None:
                taken.complete(None)
                return
            _log.debug("client_metrics.not_taken", client=client.client_id, error=error)
            refusal = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.INVALID_RECORD)
            instance.last_error = refusal.code
            taken.fail(refusal)

        self._receiver.export(
            uuid_text(instance_id), client.client_id or "", Codec(codec), data, instance.lifetime_ms
        ).when_done(done)
        return taken

    def _check(
        self, instance: _Instance, data: bytes, *, subscription_id: int, codec: int, terminating: bool
    ) -> None:
        """``validatePushRequest``: the checks in Kafka's order, as only the first failure is answered."""
        if instance.terminating:
            # It has said that it ends: nothing can follow.
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not instance.may_push(self._clock.monotonic_ms()) and not terminating:
            raise self._too_early()
        if subscription_id != instance.wanted.subscription_id:
            self.unknown_subscriptions += 1
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if codec not in _CODECS:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(data) > self.bytes_max:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)

    def _too_early(self) -> KafkaError:
        self.throttled += 1
        return KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    def _new_id(self) -> Uuid:
        while (instance_id := random_uuid(self._rng)) in self._instances:
            pass
        return instance_id

    def _instance(self, instance_id: Uuid, client: TelemetryClient) -> _Instance:
        """The client, made anew where it is not known or a subscription was changed since."""
        now_ms = self._clock.monotonic_ms()
        instance = self._instances.get(instance_id)
        version = self._subscriptions.version
        if instance is not None and not _is_alive(instance, now_ms):
            instance = None
        if instance is None or instance.version != version:
            # The connection that a client came by first is the one that it goes with.
            owner = client if instance is None else instance.client
            if instance is None:
                self._admit(owner, now_ms)
            instance = _Instance(owner, self._subscriptions.wanted_of(instance_id, owner), version)
            self._instances[instance_id] = instance
        self._instances.move_to_end(instance_id)
        if len(self._instances) > INSTANCES_MAX:
            self._instances.popitem(last=False)
        instance.expires_ms = now_ms + instance.lifetime_ms
        return instance

    def _admit(self, client: TelemetryClient, now_ms: float) -> None:
        """Counts a client that begins. Raises KafkaError THROTTLING_QUOTA_EXCEEDED for one too many."""
        minute = int(now_ms // MINUTE_MS)
        if minute != self._minute:
            self._minute = minute
            self._new.clear()
        connection = client.peer.address
        address = connection[0]
        if self._new[connection] >= NEW_OF_CONNECTION_MAX or self._new[address] >= NEW_OF_ADDRESS_MAX:
            raise self._too_early()
        self._new[connection] += 1
        self._new[address] += 1

    def instance_count(self) -> int:
        """How many clients are known; those that have gone are forgotten."""
        now_ms = self._clock.monotonic_ms()
        gone = [key for key, instance in self._instances.items() if not _is_alive(instance, now_ms)]
        for key in gone:
            del self._instances[key]
        return len(self._instances)

    def __repr__(self) -> str:
        return f"<ClientMetricsManager instances={len(self._instances)} {self._subscriptions!r}>"


def _is_alive(instance: _Instance, now_ms: float) -> bool:
    return instance.client.peer.is_connected and now_ms < instance.expires_ms
