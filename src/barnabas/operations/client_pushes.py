"""What clients have pushed to a broker (KIP-714), as its metrics show it: docs/client-metrics.md.

A series of a client is a sample with the labels ``client_id`` and ``client_instance_id``. Of the broker's own
metrics only two have them: how long ago a client has pushed, and when it is forgotten. A sample has no
``client_id`` where that is empty.
"""

import math
import re
from collections.abc import Iterable, Sequence
from sys import intern
from typing import Final, NamedTuple, TypeAlias

SERIES_MAX: Final = 20_000
"""The most series that are read of all brokers; those that a list of clients shows are read first."""

Labels: TypeAlias = tuple[tuple[str, str], ...]

RATES: Final = (
    "org.apache.kafka.producer.record.send.rate",
    "org.apache.kafka.consumer.fetch.manager.records.consumed.rate",
)
"""Records a second that a producer sends, and that a consumer hands out."""
LATENCIES: Final = (
    ("org.apache.kafka.producer.request.latency.avg", "org.apache.kafka.producer.node.request.latency.avg"),
    (
        "org.apache.kafka.consumer.fetch.manager.fetch.latency.avg",
        "org.apache.kafka.consumer.node.request.latency.avg",
    ),
    ("org.apache.kafka.admin.client.node.request.latency.avg",),
)
"""How many milliseconds a request takes, by kind of client: of each the first that it pushes."""
# Not failed.rebalance.total of a consumer: Java counts a first join, which gets its member id, among them.
ERRORS: Final = (
    "org.apache.kafka.producer.record.error.total",
    "org.apache.kafka.producer.failed.authentication.total",
    "org.apache.kafka.consumer.failed.authentication.total",
    "org.apache.kafka.admin.client.failed.authentication.total",
)
"""Records that a producer gave up, and log-ins that failed."""
LAG: Final = "org.apache.kafka.consumer.fetch.manager.records.lag.max"
_FIRST: Final = tuple(
    name.replace(".", "_") for name in (*RATES, *(one for names in LATENCIES for one in names), *ERRORS, LAG)
)

_MARK: Final = 'client_instance_id="'
_LINE: Final = re.compile(r"([a-zA-Z_]\w*)\{(.*)\} (\S+)")
LABEL: Final = re.compile(r'(?<!\w)([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
"""A label and its value as escaped. A name is looked for only where a word begins: looking at each letter of
a word takes the square of its length, 0.3 s for 8,000.
"""
_ESCAPED: Final = re.compile(r"\\(.)")
_LINE_CHARS_MAX: Final = 8_000
_OWN: Final = "barnabas_client_metrics_"
_PREFIX: Final = "org_apache_kafka_"
_KINDS: Final = {"producer": "producer", "consumer": "consumer", "admin": "admin", "stream": "streams"}


class PushedSeries(NamedTuple):
    """One value of a client."""

    name: str
    """As KIP-714 has it; one that is none of Kafka's as the endpoint shows it."""
    labels: Labels
    value: float


class PushingClient(NamedTuple):
    """A client as one broker knows it."""

    client_id: str
    instance_id: str
    broker: str
    """The id of the broker where the endpoint serves several, else empty."""
    age_s: float | None
    """Since its last push; None where the broker does not say it."""
    lifetime_s: float | None
    """After so long without a push the broker forgets it."""
    series: Sequence[PushedSeries]


class ClientPushes(NamedTuple):
    """What one endpoint has of clients."""

    clients: Sequence[PushingClient]
    left_out: int
    """Series beyond the bound, or of lines that are too long, which were not read."""
    left_out_by_broker: int
    """Values that the broker has not kept."""
    is_receiver: bool
    """Whether the broker has metrics of clients at all; Apache Kafka has none."""


def is_of_client(line: str) -> bool:
    """Whether a line of metrics is about one client."""
    return _MARK in line


def client_pushes(text: str, series_max: int) -> ClientPushes:
    """What a broker's metrics say of clients, at most so many series."""
    about: list[str] = []
    wanted: list[str] = []
    others: list[str] = []
    left_out_by_broker, is_receiver, too_long = 0, False, 0
    # Not splitlines(): it ends a line at U+2028 too, so a label could begin the line of another client.
    for line in text.split("\n"):
        if line.startswith(_OWN):
            is_receiver = True
            if _MARK in line:
                about.append(line)
            elif line.startswith(f"{_OWN}left_out_total"):
                left_out_by_broker += int(_number(line.rpartition(" ")[2]) or 0)
        elif _MARK in line and not line.startswith("#"):
            if len(line) > _LINE_CHARS_MAX:
                too_long += 1
            else:
                (wanted if line.startswith(_FIRST) else others).append(line)
    lines = [*wanted, *others]
    found = _by_client(lines[:series_max])
    ages, lifetimes = (_about(about, f"{_OWN}{name}") for name in ("push_age_seconds", "lifetime_seconds"))
    clients = [
        PushingClient(*key, ages.get(key), lifetimes.get(key), series) for key, series in found.items()
    ]
    return ClientPushes(clients, len(lines[series_max:]) + too_long, left_out_by_broker, is_receiver)


_Key: TypeAlias = tuple[str, str, str]
"""The ids of the client, of its instance, and of the broker."""


def _by_client(lines: Iterable[str]) -> dict[_Key, list[PushedSeries]]:
    found: dict[_Key, list[PushedSeries]] = {}
    for line in lines:
        if one := _sample(line):
            name, key, labels, value = one
            found.setdefault(key, []).append(PushedSeries(kafka_name(name), labels, value))
    return found


def _about(lines: Iterable[str], name: str) -> dict[_Key, float]:
    """What these samples of this name say, in seconds."""
    samples = [_sample(line) for line in lines if line.startswith(f"{name}{{")]
    return {one[1]: one[3] for one in samples if one}


def _sample(line: str) -> tuple[str, _Key, Labels, float] | None:
    """The name, whose it is, the other labels and the value; None for what is no sample, or no number."""
    match = _LINE.fullmatch(line)
    value = None if match is None else _number(match[3])
    if match is None or value is None:
        return None
    labels = {intern(name): _unescaped(text) for name, text in LABEL.findall(match[2])}
    key = labels.pop("client_id", ""), labels.pop("client_instance_id", ""), labels.pop("broker", "")
    # It changes when a member joins again, and then the series of both are there for a while.
    labels.pop("group_member_id", None)
    return match[1], key, tuple(sorted(labels.items())), value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _unescaped(text: str) -> str:
    """A label's value: quotes, backslashes and ends of lines are escaped there."""
    if "\\" not in text:
        return intern(text)
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def kafka_name(name: str) -> str:
    """The name that a client has sent, as far as the endpoint says it: Kafka's own have dots alone."""
    if not name.startswith(_PREFIX):
        return intern(name)
    # The endpoint adds it to a gauge whose name ends as a counter's does.
    if name.endswith("_total_value"):
        name = name.removesuffix("_value")
    return intern(name.replace("_", "."))


def kind_of(name: str) -> str | None:
    """Which kind of client has a metric of this name: producer, consumer, admin, streams."""
    words = name.split(".")
    return _KINDS.get(words[3]) if len(words) > 3 and name.startswith("org.apache.kafka.") else None
