"""What a broker tells about itself in figures: counters, gauges, distributions, and the registry that names
them.

Theory of operation
-------------------
Counting is an addition to an int in place (``stats.bytes_in += size``), and a distribution keeps the last
values in a ring (`Histogram`, or a ring of the owner's). There are no locks: all of it belongs to the thread
of the event loop. What can be looked up (a log's size, the role of a partition) is not counted at all.

The owner of such figures knows neither their names outside nor who reads them. A `Registry` has one `Metric`
for each name: what it means, and a function that reads it now. What shows figures, the endpoint of
`barnabas.node` or a console, walks the registry. A function that reads very many things is a generator that
yields None wherever the loop may serve others.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

RECENT: Final = 1028
"""How many values the quantiles are of, as in Kafka's own histograms.
Kafka draws them by chance, here they are the last.
"""

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of a Kafka histogram (``50thPercentile`` to ``999thPercentile``)."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often something happened, and how large it was lately."""

    count: int
    quantiles: tuple[float, ...]
    """The values at `QUANTILES`; NaN while there are none."""


def distribution(count: int, recent: Iterable[float]) -> Distribution:
    """The quantiles of some values, between two of them where they fall there (``Snapshot.getValue``)."""
    ordered = sorted(recent)
    if not ordered:
        return Distribution(count, (math.nan,) * len(QUANTILES))
    last = len(ordered) - 1
    found = []
    for quantile in QUANTILES:
        place = min(max(quantile * (len(ordered) + 1) - 1, 0), last)
        below = int(place)
        low, high = ordered[below], ordered[min(below + 1, last)]
        found.append(low + (place - below) * (high - low))
    return Distribution(count, tuple(found))


class Histogram:
    """Values of one kind, such as durations."""

    __slots__ = ("count", "recent")

    def __init__(self) -> None:
        self.count = 0
        self.recent: deque[float] = deque(maxlen=RECENT)

    def record(self, value: float) -> None:
        self.count += 1
        self.recent.append(value)

    def distribution(self) -> Distribution:
        return distribution(self.count, self.recent)

    def __repr__(self) -> str:
        return f"<Histogram of {self.count}>"


class Kind(Enum):
    """What a reader may do with a figure; the values are the types of the Prometheus text format."""

    COUNTER = "counter"
    """Only grows while the broker runs: read its rate."""
    GAUGE = "gauge"
    """How it is now."""
    SUMMARY = "summary"
    """A `Distribution`."""


Reading: TypeAlias = tuple[tuple[str, ...], float | Distribution]
"""The values of the labels, and the figure."""


class Metric(NamedTuple):
    """One name."""

    name: str
    """As a Prometheus server knows it; that of a counter ends in ``_total``."""
    kind: Kind
    doc: str
    read: Callable[[], Iterable[Reading | None]]
    labels: tuple[str, ...] = ()


class Registry:
    """All metrics of one broker, in the order in which they were added."""

    __slots__ = ("_metrics", "_sources")

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._sources: list[Callable[[], Iterable[Metric]]] = []

    def add(
        self,
        name: str,
        kind: Kind,
        doc: str,
        read: Callable[[], Iterable[Reading | None]],
        labels: tuple[str, ...] = (),
    ) -> None:
        """Adds a metric with labels: `read` gives one reading for each combination of their values."""
        assert name not in self._metrics, f"{name} is registered twice"
        assert (kind is Kind.COUNTER) == name.endswith("_total"), f"{name} says of which kind it is"
        self._metrics[name] = Metric(name, kind, doc, read, labels)

    def counter(self, name: str, doc: str, read: Callable[[], float]) -> None:
        """Adds a counter without labels."""
        self.add(name, Kind.COUNTER, doc, lambda: (((), read()),))

    def gauge(self, name: str, doc: str, read: Callable[[], float]) -> None:
        """Adds a gauge without labels."""
        self.add(name, Kind.GAUGE, doc, lambda: (((), read()),))

    def include(self, source: Callable[[], Iterable[Metric]]) -> None:
        """Adds metrics whose names are not known before: `source` gives those that there are now."""
        self._sources.append(source)

    def __iter__(self) -> Iterator[Metric]:
        yield from list(self._metrics.values())
        for source in self._sources:
            yield from source()

    def __len__(self) -> int:
        return len(self._metrics)

    def __repr__(self) -> str:
        return f"<Registry of {len(self)} metrics>"
