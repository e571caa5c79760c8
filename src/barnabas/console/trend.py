"""`Trend`: what has come lately, so many samples of it: records a second of the cluster and of each topic,
lag.
"""

from array import array
from collections import deque
from collections.abc import Sequence
from typing import Final

from barnabas.console.reading import known
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.core.ids import TopicPartition

SAMPLES: Final = 60


class Trend:
    """The last samples; lives in memory, and begins with the console."""

    def __init__(self) -> None:
        self._ends = ClusterSnapshot().ends
        self._rates: dict[str, deque[float]] = {}
        self._lags: dict[str, deque[float]] = {}
        self._of_partitions: dict[TopicPartition, float] = {}
        self.cluster_rate: deque[float] = deque(maxlen=SAMPLES)

    def add(self, snapshot: ClusterSnapshot) -> None:
        """One more sample."""
        rates: dict[str, float] = {}
        of_partitions: dict[TopicPartition, float] = {}
        for tp, now in snapshot.ends.items():
            before = self._ends.get(tp)
            if before is None or before.value is None or now.value is None or now.at_ms <= before.at_ms:
                continue
            seconds = (now.at_ms - before.at_ms) / 1000
            rate = max(now.value - before.value, 0) / seconds
            rates[tp.topic] = rates.get(tp.topic, 0.0) + rate
            if rate:
                of_partitions[tp] = rate
        if self._ends:
            self._of_partitions = of_partitions
            self.cluster_rate.append(sum(rates.values()))
            for topic, rate in rates.items():
                self._rates.setdefault(topic, deque(maxlen=SAMPLES)).append(rate)
        self._ends = snapshot.ends
        for gone in self._rates.keys() - (snapshot.topics.value or {}).keys():
            del self._rates[gone]
        for group in self._lags.keys() - snapshot.groups.keys():
            del self._lags[group]
        for group, positions in snapshot.positions.items():
            if positions.value is None:
                continue  # what is not known is no lag of 0
            lag = sum(
                max(end - one.offset, 0)
                for tp, one in positions.value.items()
                if one is not None and (end := known(snapshot.ends, tp)) is not None
            )
            self._lags.setdefault(group, deque(maxlen=SAMPLES)).append(lag)

    def rates(self, topic: str) -> Sequence[float]:
        """Records a second of a topic, the newest last; none before the second look."""
        return array("d", self._rates.get(topic, ()))

    def rate(self, topic: str) -> float | None:
        """Records a second of a topic now; None before the second look."""
        found = self._rates.get(topic)
        return found[-1] if found else None

    def partition_rate(self, tp: TopicPartition) -> float:
        """Records a second of a partition now, as far as is known."""
        return self._of_partitions.get(tp, 0.0)

    def lags(self, group: str) -> Sequence[float]:
        """The records that a group is behind, the newest last."""
        return array("d", self._lags.get(group, ()))
