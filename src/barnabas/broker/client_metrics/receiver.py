"""`ClientMetricsReceiver`: keeps what clients push, for the metrics endpoint (``ClientTelemetryReceiver``).

Theory of operation
-------------------
A small push is read at once, which takes less than a millisecond for a client of Kafka. One that is large,
or becomes large when it is decompressed, is read in a child process; `READING_MAX` of them at a time, and a
client beyond that is asked to wait. So a push that was made to hurt holds no loop and fills no memory.

A series is a name with labels, of one client. Values of a delta are added up, others take the place of the
last. A series that its client pushes no longer goes when its time is over: three intervals, a minute at
least. There are `series_max` series, and `SERIES_OF_CLIENT_MAX` of one client; one whose line in a scrape is
long counts for several, so that a scrape stays as small as its readers want it. The series of one name have
`LABELS_OF_NAME_MAX` names of labels between them. What is beyond is left out and counted.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from barnabas.broker.client_metrics.otlp import LABEL_CHARS_MAX, Labels, Push, read_push
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.metrics import Kind, Metric, Reading
from barnabas.core.offload import Offload
from barnabas.core.pending import Pending
from barnabas.records.compression import Codec, TooLargeError

AT_ONCE_BYTES_MAX: Final = 64 * 1024
"""Plain bytes that are read on the event loop: a few milliseconds for the worst of them."""
PLAIN_BYTES_MAX: Final = 2 * 1024 * 1024
"""What a push may become when it is decompressed."""
READING_MAX: Final = 4
SERIES_OF_CLIENT_MAX: Final = 2_000
LABELS_OF_NAME_MAX: Final = 64
"""A scrape looks for each of these labels in each series of the name. One series has half as many at most."""

LINE_BYTES: Final = 512
"""A series has room for so many; a longer one takes that of several. A line of a Java client has 300."""

_Key: TypeAlias = tuple[str, str, Labels]
"""The ids of the instance and of the client, and the other labels."""


class _LastPush(NamedTuple):
    """When a client pushed last, and for how long that counts."""

    at_ms: float
    life_ms: float


class _Series:
    __slots__ = ("expires_ms", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.expires_ms = 0.0


class _Family:
    """All series of one name."""

    __slots__ = ("labels", "series")

    def __init__(self) -> None:
        self.labels: set[str] = set()
        self.series: dict[_Key, _Series] = {}

    def readings(self, labels: tuple[str, ...]) -> Iterator[Reading]:
        for (instance_id, client_id, own), series in list(self.series.items()):
            values = dict(own)
            yield (client_id, instance_id, *(values.get(label, "") for label in labels)), series.value


class ClientMetricsReceiver:
    """Has the last values that clients have pushed."""

    def __init__(self, clock: Clock, offload: Offload, *, series_max: int) -> None:
        self._clock = clock
        self._offload = offload
        self._series_max = series_max
        self._families: dict[str, _Family] = {}
        self._of_client: Counter[str] = Counter()
        """The room that the series of each instance take."""
        self._last: dict[tuple[str, str], _LastPush] = {}
        """Of each instance that has series, with the id of its client."""
        self._room_taken = 0
        self._reading = 0
        self._swept_ms = 0.0
        self.pushes = 0
        self.malformed = 0
        self.left_out = 0
        """Values that were not kept."""

    @property
    def series_count(self) -> int:
        """How many series there are."""
        return sum(len(family.series) for family in self._families.values())

    def export(
        self, instance_id: str, client_id: str, codec: Codec, data: bytes, lifetime_ms: float
    ) -> Pending[None]:
        """Keeps the values of a push; fails with what is wrong with it, and with THROTTLING_QUOTA_EXCEEDED
        where too many large ones are being read.
        """
        done: Pending[None] = Pending()
        client_id = client_id[:LABEL_CHARS_MAX]

        def read(outcome: Pending[Push]) -> None:
            if outcome.error is not None:
                self.malformed += 1
                done.fail(outcome.error)
                return
            self._keep(instance_id, client_id, outcome.result(), lifetime_ms)
            done.complete(None)

        if len(data) <= AT_ONCE_BYTES_MAX:
            try:
                push = read_push(codec, data, AT_ONCE_BYTES_MAX)
            except TooLargeError:
                pass  # it grows beyond what is read at once
            except Exception as error:
                read(Pending.failed(error))
                return done
            else:
                read(Pending.of(push))
                return done
        if self._reading >= READING_MAX:
            return Pending.failed(KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED))
        self._reading += 1

        def read_elsewhere(outcome: Pending[Push]) -> None:
            self._reading -= 1
            read(outcome)

        self._offload.run(read_push, int(codec), bytes(data), PLAIN_BYTES_MAX).when_done(read_elsewhere)
        return done

    def _keep(self, instance_id: str, client_id: str, push: Push, lifetime_ms: float) -> None:
        self.pushes += 1
        self.left_out += push.left_out
        now_ms = self._clock.monotonic_ms()
        expires_ms = now_ms + lifetime_ms
        for name, labels, value, is_delta in push.points:
            key = (instance_id, client_id, labels)
            family = self._families.get(name)
            series = None if family is None else family.series.get(key)
            if series is None:
                series = self._new_series(name, key)
                if series is None:
                    self.left_out += 1
                    continue
            series.value = series.value + value if is_delta else value
            series.expires_ms = expires_ms
        if self._of_client[instance_id]:
            self._last[instance_id, client_id] = _LastPush(now_ms, lifetime_ms)

    def _new_series(self, name: str, key: _Key) -> _Series | None:
        """A series that is not there yet; None where there are too many, or its name has too many labels."""
        instance_id, _, labels = key
        room = _room(name, key)
        if self._is_full(instance_id, room):
            self._sweep_sometimes()
            if self._is_full(instance_id, room):
                return None
        family = self._families.get(name)
        known: set[str] = set() if family is None else family.labels
        names = known.union(label for label, _ in labels)
        if len(names) > LABELS_OF_NAME_MAX:
            return None
        if family is None:
            family = self._families[name] = _Family()
        family.labels = names
        series = family.series[key] = _Series()
        self._of_client[instance_id] += room
        self._room_taken += room
        return series

    def _is_full(self, instance_id: str, room: int) -> bool:
        """Whether a series that takes so much has no room, among all or among those of its client."""
        return (
            self._room_taken + room > self._series_max
            or self._of_client[instance_id] + room > SERIES_OF_CLIENT_MAX
        )

    def _sweep_sometimes(self) -> None:
        """At most once a second: whoever fills this up makes nobody look through all of it each time."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._swept_ms >= 1000:
            self.sweep()

    def sweep(self) -> None:
        """Forgets the series whose time is over."""
        now_ms = self._swept_ms = self._clock.monotonic_ms()
        for name, family in list(self._families.items()):
            is_smaller = False
            for key in [key for key, series in family.series.items() if series.expires_ms <= now_ms]:
                del family.series[key]
                room = _room(name, key)
                self._room_taken -= room
                self._of_client[key[0]] -= room
                is_smaller = True
            if not family.series:
                del self._families[name]
            elif is_smaller:
                family.labels = {label for _, _, labels in family.series for label, _ in labels}
        self._of_client = +self._of_client
        self._last = {key: one for key, one in self._last.items() if one.at_ms + one.life_ms > now_ms}

    def push_ages(self) -> Iterator[Reading]:
        """For how many seconds each client has been silent."""
        now_ms = self._clock.monotonic_ms()
        for client, last in self._heard(now_ms):
            yield client, (now_ms - last.at_ms) / 1000

    def lifetimes(self) -> Iterator[Reading]:
        """After how many seconds of silence each client is forgotten: three of its intervals, or a minute."""
        for client, last in self._heard(self._clock.monotonic_ms()):
            yield client, last.life_ms / 1000

    def _heard(self, now_ms: float) -> Iterator[tuple[tuple[str, str], _LastPush]]:
        """The ids of the clients that are not forgotten. All series are looked through once a scrape, for
        `families`, and not here.
        """
        for (instance_id, client_id), last in list(self._last.items()):
            if last.at_ms + last.life_ms > now_ms:
                yield (client_id, instance_id), last

    def families(self) -> Iterator[Metric]:
        """What clients have pushed, as metrics of the registry: a name each."""
        self.sweep()
        for name, family in sorted(self._families.items()):
            labels = tuple(sorted(family.labels))
            yield Metric(
                name,
                Kind.COUNTER if name.endswith("_total") else Kind.GAUGE,
                "Pushed by clients (KIP-714).",
                _reader(family, labels),
                ("client_id", "client_instance_id", *labels),
            )

    def __repr__(self) -> str:
        return f"<ClientMetricsReceiver series={self.series_count} pushes={self.pushes}>"


def _room(name: str, key: _Key) -> int:
    """For how many series one counts, by the length of its line in a scrape."""
    instance_id, client_id, labels = key
    size = len(name) + len(instance_id) + len(client_id.encode())
    for label, value in labels:
        # A quote, a backslash and the end of a line take two bytes there.
        escaped = value.count('"') + value.count("\\") + value.count("\n")
        size += len(label) + len(value.encode()) + escaped + len('="",')
    return 1 + size // LINE_BYTES


def _reader(family: _Family, labels: tuple[str, ...]) -> Callable[[], Iterator[Reading]]:
    return lambda: family.readings(labels)
