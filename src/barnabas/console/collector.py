"""`Collector`: keeps the snapshot of one cluster fresh, in bounded requests.

Theory of operation
-------------------
A round asks, one after the other, for what changes always: brokers, topics with leaders and in-sync
replicas, ends of logs, groups. What changes seldom or costs much is asked for every so many rounds (log
directories, configurations), or for a part of it in each round, the longest unread first (descriptions and
positions of groups, configurations of topics): more groups make no round longer. For the time of its newest
record a broker looks through a log, so it is asked where the log is not as it was (`SeenLog`). Each step
puts its piece into the snapshot as soon as it has it. A step that fails or takes too long leaves the values
as they were, with the error beside them; the steps after it run all the same. The client has one request in
flight to each broker.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.admin import AsyncAdmin, ConfigResource, GroupState, OffsetAndMetadata, TopicDescription
from barnabas.client import AsyncConsumer
from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, OffsetAndTimestamp
from barnabas.console import changes
from barnabas.console.disk_room import rooms_of
from barnabas.console.held_offsets import held_of
from barnabas.console.reading import FRESH_MS, Observation, known, merged, read
from barnabas.console.snapshot import ClusterChange, ClusterSnapshot, NextRecord, Scrape
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.network.errors import UnsupportedVersionError
from barnabas.operations.certificates import CertificateReader
from barnabas.operations.clock import now_ms
from barnabas.operations.record_times import first_times
from barnabas.operations.scrapes import BrokerScrape

_log = EventLog("console")

K = TypeVar("K")
V = TypeVar("V")

_MISSED: Final = 3
"""With so many looks that did not come, a value is old."""
_UNDELIVERED_MAX: Final = 50_000
"""Changes that wait for the history; the oldest go first."""
_NEWEST_ROUNDS: Final = 30
"""In so many rounds the newest time of each partition is read again where its log is as it was."""
TOPIC_KEYS: Final = ("cleanup.policy", "min.insync.replicas", "retention.bytes", "retention.ms")
_REBALANCING: Final = frozenset({GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE})

Positions = Mapping[TopicPartition, OffsetAndMetadata | None]
BrokersScraper = Callable[[], Awaitable[Mapping[int, BrokerScrape | BarnabasError]]]
Scraper = Callable[[], Awaitable[Mapping[str, Scrape | BarnabasError]]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is asked for, how often."""

    round_s: float = 10.0
    """From the begin of a round to that of the next."""
    seldom: int = 6
    """Every so many rounds: log directories, starts of logs, configurations of brokers."""
    groups: int = 500
    """Groups whose members and positions are read in a round."""
    topic_configs: int = 500
    next_records: int = 200
    """Places whose time is fetched in a round."""
    timeout_ms: int = 5_000
    """Of one step."""
    retry_s: float = 5.0
    """Until a cluster of which no broker answers is tried again."""
    refused_s: float = 60.0
    """The same where it refuses the log-in: an account may be locked after so many tries."""

    def fresh_ms(self, every: int = 1, took_ms: int = 0) -> int:
        """How long a value is fresh that is read every so many rounds, of which the last took `took_ms`:
        until some looks have not come, and a minute at least.
        """
        return max(FRESH_MS, _MISSED * every * max(round(self.round_s * 1000), took_ms))


class SeenLog(NamedTuple):
    """What differs where a log may have other records than before: another topic has the name now, another
    leader may have truncated what it had, something was appended or deleted.
    """

    topic_id: Uuid
    leader_epoch: int
    start: int | None
    end: int


class Collector:
    """Reads one cluster; `snapshot` is what it knows."""

    def __init__(
        self,
        admin: AsyncAdmin,
        consumer: AsyncConsumer,
        pace: Pace,
        *,
        brokers: BrokersScraper | None = None,
        zookeeper: Scraper | None = None,
        certificates: CertificateReader | None = None,
        snapshot: ClusterSnapshot | None = None,
    ) -> None:
        """`snapshot` is what an earlier collector has left."""
        self._admin = admin
        self._consumer = consumer
        self._pace = pace
        self._scrape_brokers = brokers
        self._scrape_zookeeper = zookeeper
        self._read_certificates = certificates
        self._round = 0
        self._leaders = _leaders_of(snapshot.topics.value or {} if snapshot else {})
        """All partitions with their leaders, as the topics were read last."""
        self._newest_of: dict[TopicPartition, SeenLog] = {}
        """Of which state of its log the newest time is."""
        self._next_of: dict[tuple[TopicPartition, int], tuple[Uuid, int]] = {}
        """In which topic, and under which leader, the time of a place was read."""
        self._undelivered: list[ClusterChange] = []
        self.snapshot = snapshot or ClusterSnapshot()

    async def round(self) -> None:
        """Asks for what is due. Raises nothing that a cluster can cause."""
        begun = now_ms()
        seldom = self._round % self._pace.seldom == 0
        steps: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("cluster", self._cluster),
            # Before the topics: whether a partition is under-replicated depends on what moves.
            ("reassignments", self._reassignments),
            ("topics", self._topics),
            ("ends", self._ends),
            *(self._seldom() if seldom else []),
            ("topic_configs", self._topic_configs),
            ("group_listings", self._group_listings),
            ("groups", self._groups),
            ("next_records", self._next_records),
            ("transactions", self._transactions),
        ]
        for name, step in steps:
            await self._attempt(name, step)
        # These ask ports of their own. They wait side by side: where both hang, a round takes one time-out
        # longer, not two.
        await asyncio.gather(
            self._attempt("scrapes", self._scrapes), self._attempt("zookeeper", self._zookeeper)
        )
        self._round += 1
        self._put(refreshed_ms=now_ms(), round_ms=now_ms() - begun)

    def _seldom(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        return [
            ("held_offsets", self._held_offsets),
            ("starts", self._starts),
            ("log_dirs", self._log_dirs),
            ("broker_configs", self._broker_configs),
            *([("certificates", self._certificates)] if self._read_certificates else []),
        ]

    async def _attempt(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(self._pace.timeout_ms / 1000 * 2):
                await step()
        except TimeoutError:
            self._failed(name, f"no answer within {self._pace.timeout_ms * 2} ms")
        except (BarnabasError, OSError) as error:
            self._failed(name, str(error) or type(error).__name__)
        except Exception as error:  # a bug of ours must not end the looks
            _log.error("console.step", step=name, error=repr(error))
            self._failed(name, repr(error))

    def _failed(self, name: str, error: str) -> None:
        """The values stay, with the error: one, or each of a table."""
        if not hasattr(self.snapshot, name):
            return
        piece = getattr(self.snapshot, name)
        if isinstance(piece, Observation):
            self._put(**{name: piece.failed(error)})
        else:
            self._put(**{name: {key: one.failed(error) for key, one in piece.items()}})

    def _put(self, **pieces: Any) -> None:
        self.snapshot = replace(self.snapshot, **pieces)

    def _changed(self, found: Iterable[ClusterChange]) -> None:
        new = list(found)
        self._undelivered = [*self._undelivered, *new][-_UNDELIVERED_MAX:]
        self._put(changes=[*self.snapshot.changes, *new][-changes.KEPT :])

    def take_changes(self) -> list[ClusterChange]:
        """The changes since this was called last, for the history."""
        found, self._undelivered = self._undelivered, []
        return found

    def _fresh_ms(self, every: int = 1) -> int:
        return self._pace.fresh_ms(every, self.snapshot.round_ms)

    @property
    def _seldom_ms(self) -> int:
        return self._fresh_ms(self._pace.seldom)

    async def _call(self, work: Awaitable[V]) -> V:
        self._put(requests=self.snapshot.requests + 1)
        return await work

    # --- what a cluster is made of

    async def _cluster(self) -> None:
        found = await self._call(self._admin.cluster.describe(timeout_ms=self._pace.timeout_ms))
        old = self.snapshot.cluster.value
        if old is not None:
            self._changed(changes.of_cluster(old, found, now_ms()))
        self._put(cluster=read(found, now_ms(), self._fresh_ms()))

    async def _topics(self) -> None:
        found = await self._call(
            self._admin.topics.describe_all(internal=True, timeout_ms=self._pace.timeout_ms)
        )
        now, old = now_ms(), self.snapshot.topics.value
        if old is not None:
            self._changed(changes.of_topics(old, found, now))
        since = self.snapshot.under_replicated_since_ms
        under = {
            (tp := TopicPartition(name, one.partition)): since.get(tp, now)
            for name, topic in found.items()
            for one in topic.partitions
            if self.snapshot.is_under_replicated(name, one)
        }
        self._leaders = _leaders_of(found)
        self._put(topics=read(found, now, self._fresh_ms()), under_replicated_since_ms=under)

    async def _reassignments(self) -> None:
        # Not `reassignments`, which takes what may not be read for none.
        try:
            found = await self._call(self._admin.partitions.reassignments(timeout_ms=self._pace.timeout_ms))
        except UnsupportedVersionError:
            found = {}
        self._put(reassignments=read(found, now_ms(), self._fresh_ms()))

    async def _offsets(
        self, kind: int, wanted: Iterable[TopicPartition], *, read_committed: bool = False
    ) -> dict[TopicPartition, Any]:
        """ListOffsets of partitions that have a leader; of the others, why there is no answer."""
        leaders = self._leaders
        asked = [tp for tp in wanted if leaders.get(tp, -1) >= 0]
        found: dict[TopicPartition, Any] = dict.fromkeys(
            (tp for tp in wanted if tp in leaders and leaders[tp] < 0),
            BarnabasError("the partition has no leader"),
        )
        if asked:
            found |= await self._call(
                self._admin.offsets.try_list(
                    dict.fromkeys(asked, kind),
                    read_committed=read_committed,
                    timeout_ms=self._pace.timeout_ms,
                )
            )
        return found

    async def _ends(self) -> None:
        there = self._leaders
        answers = await self._offsets(LATEST_TIMESTAMP, there)
        found = _values(answers, "offset")
        self._put(ends=merged(self.snapshot.ends, found, now_ms(), there, self._fresh_ms()))

    async def _starts(self) -> None:
        there = self._leaders
        answers = await self._offsets(EARLIEST_TIMESTAMP, there)
        found = _values(answers, "offset")
        self._put(starts=merged(self.snapshot.starts, found, now_ms(), there, self._seldom_ms))

    def _brokers(self) -> list[int]:
        cluster = self.snapshot.cluster.value
        return [one.node_id for one in cluster.brokers] if cluster else []

    async def _log_dirs(self) -> None:
        there = self._brokers()
        answers = await self._call(self._admin.log_dirs.try_describe(there, timeout_ms=self._pace.timeout_ms))
        found = merged(self.snapshot.log_dirs, answers, now_ms(), there, self._seldom_ms)
        sizes: Counter[str] = Counter()
        for reading in found.values():
            for directory in (reading.value or {}).values():
                for tp, replica in directory.replicas.items():
                    sizes[tp.topic] += replica.size
        self._put(log_dirs=found, topic_sizes=sizes, rooms=rooms_of(self.snapshot.rooms, found))

    async def _certificates(self) -> None:
        assert self._read_certificates is not None, "a step of clusters with TLS"
        cluster = self.snapshot.cluster.value
        brokers = cluster.brokers if cluster else []
        answers = await self._call(self._read_certificates(brokers))
        there = [one.node_id for one in brokers]
        found = merged(self.snapshot.certificates, answers, now_ms(), there, self._seldom_ms)
        self._put(certificates=found)

    async def _held_offsets(self) -> None:
        answers = await self._offsets(LATEST_TIMESTAMP, self._leaders, read_committed=True)
        before = self.snapshot.held_offsets.value or {}
        held = held_of(before, self.snapshot.ends, answers, now_ms())
        failed = [
            error
            for tp, error in answers.items()
            if isinstance(error, BarnabasError) and self._leaders[tp] >= 0
        ]
        found = read(held, now_ms(), self._seldom_ms)
        self._put(held_offsets=found.failed(failed[0]) if failed else found)

    async def _broker_configs(self) -> None:
        there, answers = self._brokers(), {}
        for broker in there:
            resource = ConfigResource.broker(broker)
            try:
                found = await self._call(
                    self._admin.configs.try_describe([resource], timeout_ms=self._pace.timeout_ms)
                )
                answers[broker] = found[resource]
            except BarnabasError as error:
                answers[broker] = error
        old = self.snapshot.broker_configs
        new = merged(old, answers, now_ms(), there, self._seldom_ms)
        self._changed(changes.of_configs("broker", old, new, now_ms()))
        self._put(broker_configs=new)

    async def _topic_configs(self) -> None:
        there = list(self.snapshot.topics.value or ())
        due = _oldest(there, self.snapshot.topic_configs, self._pace.topic_configs)
        if not due:
            return
        found = await self._call(
            self._admin.configs.try_describe(
                [ConfigResource.topic(name) for name in due],
                keys=TOPIC_KEYS,
                timeout_ms=self._pace.timeout_ms,
            )
        )
        answers = {resource.name: entries for resource, entries in found.items()}
        old = self.snapshot.topic_configs
        new = merged(
            old, answers, now_ms(), there, self._fresh_ms(-(-len(there) // self._pace.topic_configs))
        )
        self._changed(changes.of_configs("topic", old, new, now_ms()))
        self._put(topic_configs=new)

    # --- groups

    async def _group_listings(self) -> None:
        answers = await self._call(
            self._admin.groups.try_list(of_consumers=False, timeout_ms=self._pace.timeout_ms)
        )
        there = {*self._brokers(), *answers}
        found = merged(self.snapshot.group_listings, answers, now_ms(), there, self._fresh_ms())
        self._put(group_listings=found)

    async def _groups(self) -> None:
        there = {
            one.group_id
            for reading in self.snapshot.group_listings.values()
            for one in reading.value or ()
            if one.protocol in {"", "consumer"}
        }
        due = _oldest(sorted(there), self.snapshot.groups, self._pace.groups)
        if not due:
            self._put(groups={}, positions={}, rebalancing_since_ms={})
            return
        described = await self._call(self._admin.groups.try_describe(due, timeout_ms=self._pace.timeout_ms))
        # They are read in parts: all of them take so many rounds.
        fresh_ms = self._fresh_ms(-(-len(there) // self._pace.groups))
        groups = merged(self.snapshot.groups, described, now_ms(), there, fresh_ms)
        if self._round:
            self._changed(changes.of_groups(self.snapshot.groups, groups, now_ms()))
        self._put(groups=groups)
        positions = await self._call(self._admin.groups.try_offsets(due, timeout_ms=self._pace.timeout_ms))
        bare = {group: _without_metadata(found) for group, found in positions.items()}
        self._put(positions=merged(self.snapshot.positions, bare, now_ms(), there, fresh_ms))
        since = self.snapshot.rebalancing_since_ms
        self._put(
            rebalancing_since_ms={
                name: since.get(name, now_ms())
                for name, one in self.snapshot.groups.items()
                if one.value is not None and one.value.state in _REBALANCING
            }
        )

    async def _next_records(self) -> None:
        """The times that lag in seconds is made of: of the records that groups read next, and of the
        newest.
        """
        behind: dict[tuple[TopicPartition, int], int] = {}
        for positions in self.snapshot.positions.values():
            for tp, one in (positions.value or {}).items():
                end = known(self.snapshot.ends, tp)
                if one is not None and end is not None and one.offset < end:
                    behind[tp, one.offset] = end
        times_known = self.snapshot.next_records
        logs = self._logs({tp for tp, _ in behind})
        places = {place: logs[place[0]][:2] for place in behind if place[0] in logs}
        # A place without a record up to the end then may have one by now; one with a record keeps its time,
        # as long as the log is that of the same topic, and of the same leader.
        due = [
            place
            for place in behind
            if place not in times_known
            or (was := times_known[place].value) is None
            or (was.time_ms is None and was.end < behind[place])
            or (place in places and places[place] != self._next_of.get(place))
        ]
        due = _oldest(due, times_known, self._pace.next_records)
        await self._newest({tp for tp, _ in behind}, logs)
        answers: dict[tuple[TopicPartition, int], NextRecord | BarnabasError] = {}
        for each in _each_partition_once(due):
            found = await self._times(each, behind)
            for place in each:
                tp, start = place
                answers[place] = (
                    NextRecord(start, behind[place], found[tp])
                    if tp in found
                    else BarnabasError("the next record could not be fetched in time")
                )
        read_now = {place: places.get(place) for place, one in answers.items() if isinstance(one, NextRecord)}
        next_of = {place: read_now.get(place, self._next_of.get(place)) for place in behind}
        self._next_of = {place: one for place, one in next_of.items() if one is not None}
        self._put(next_records=merged(times_known, answers, now_ms(), behind))

    def _logs(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, SeenLog]:
        """The states of these logs, as far as this round has read them."""
        topics, ends = self.snapshot.topics, self.snapshot.ends
        asked, found = set(wanted), {}
        for name in {tp.topic for tp in asked} if topics.error is None else ():
            if (described := (topics.value or {}).get(name)) is None:
                continue
            for one in described.partitions:
                tp = TopicPartition(name, one.partition)
                end = ends.get(tp)
                if tp not in asked or one.leader_epoch < 0 or end is None or end.error or end.value is None:
                    continue
                start = known(self.snapshot.starts, tp)
                found[tp] = SeenLog(described.topic_id, one.leader_epoch, start, end.value)
        return found

    async def _newest(self, partitions: set[TopicPartition], logs: Mapping[TopicPartition, SeenLog]) -> None:
        """The times of the newest records: of logs that are not as they were, and of some of the others in
        each round, as compaction takes records without a trace in what is read of a log.
        """
        before = self.snapshot.newest_ms
        still = {
            tp
            for tp, state in logs.items()
            if tp in before and not before[tp].error and self._newest_of.get(tp) == state
        }
        again = _oldest(still, before, -(-len(still) // _NEWEST_ROUNDS))
        due = (partitions - still).union(again)
        answers = _values(await self._offsets(MAX_TIMESTAMP, due), "timestamp")
        failed = {tp for tp, one in answers.items() if isinstance(one, BarnabasError)}
        self._newest_of = {tp: state for tp, state in logs.items() if tp not in failed}
        self._put(newest_ms=merged(before, answers, now_ms(), partitions))

    async def _times(
        self,
        places: list[tuple[TopicPartition, int]],
        behind: Mapping[tuple[TopicPartition, int], int],
    ) -> dict[TopicPartition, int | None]:
        starts, ends = self.snapshot.starts, behind
        ranges = {}
        for tp, position in places:
            start = known(starts, tp) or 0
            ranges[tp] = (max(position, start), ends[tp, position])
        # Readers of committed records see no further than the last stable offset.
        stable = await self._call(
            self._admin.offsets.try_list(
                dict.fromkeys(ranges, LATEST_TIMESTAMP), read_committed=True, timeout_ms=self._pace.timeout_ms
            )
        )
        found: dict[TopicPartition, int | None] = {}
        wanted = {}
        for tp, (start, end) in ranges.items():
            last = stable.get(tp)
            if isinstance(last, OffsetAndTimestamp):
                if start >= min(end, last.offset):
                    found[tp] = None
                else:
                    wanted[tp] = (start, min(end, last.offset))
        if wanted:
            found |= await self._call(first_times(self._consumer, wanted, self._pace.timeout_ms))
        return found

    # --- the rest

    async def _transactions(self) -> None:
        found = await self._call(self._admin.transactions.list(timeout_ms=self._pace.timeout_ms))
        self._put(transactions=read(found, now_ms(), self._fresh_ms()))

    async def _scrapes(self) -> None:
        if self._scrape_brokers is not None:
            answers = await self._call(self._scrape_brokers())
            there, now, fresh_ms = self._brokers(), now_ms(), self._fresh_ms()
            figures = _values(answers, "figures")
            self._put(scrapes=merged(self.snapshot.scrapes, figures, now, there, fresh_ms))
            clients = _values(answers, "clients")
            self._put(client_pushes=merged(self.snapshot.client_pushes, clients, now, there, fresh_ms))

    async def _zookeeper(self) -> None:
        if self._scrape_zookeeper is not None:
            servers = await self._call(self._scrape_zookeeper())
            self._put(zookeeper=merged(self.snapshot.zookeeper, servers, now_ms(), None, self._fresh_ms()))


def _leaders_of(topics: Mapping[str, TopicDescription]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(name, one.partition): one.leader
        for name, topic in topics.items()
        for one in topic.partitions
    }


def _values(answers: Mapping[K, Any], name: str) -> dict[K, Any]:
    return {
        key: one if isinstance(one, BarnabasError) else getattr(one, name) for key, one in answers.items()
    }


def _without_metadata(found: Positions | BarnabasError) -> Positions | BarnabasError:
    """Positions alone: what a group writes beside one may have 32 kB, and no page shows it."""
    if isinstance(found, BarnabasError):
        return found
    return {tp: one and one._replace(metadata="") for tp, one in found.items()}


def _oldest(wanted: Iterable[K], known: Mapping[K, Observation[Any]], count: int) -> list[K]:
    """Those of the wanted that were read longest ago, or never."""
    return sorted(wanted, key=lambda one: known[one].at_ms if one in known else 0)[:count]


def _each_partition_once(
    places: Iterable[tuple[TopicPartition, int]],
) -> Iterable[list[tuple[TopicPartition, int]]]:
    """Rounds in which each partition is read at one place: a consumer has one position in it."""
    left = list(places)
    while left:
        now = {tp: (tp, position) for tp, position in reversed(left)}
        yield list(now.values())
        taken = set(now.values())
        left = [one for one in left if one not in taken]
