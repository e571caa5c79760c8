"""`FencedStore`: the metadata store as an elected controller uses it (the fenced part of ``KafkaZkClient``).

Each write goes together with a check of the version that /controller_epoch had at the election. A controller
that was replaced without noticing fails that check, and gets `ControllerMovedError` instead of a write. The
same error ends the event that is running when the session is lost or the term is over.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from barnabas.cluster.leadership import LeaderAndIsr, PartitionLeadership
from barnabas.cluster.store import znodes
from barnabas.cluster.store.absent import children_if_there
from barnabas.cluster.store.contract import (
    BadVersionError,
    Check,
    Create,
    Delete,
    MetadataStore,
    NoNodeError,
    Operation,
    SessionExpiredError,
    SetData,
    StoreError,
)
from barnabas.cluster.store.payload import UnreadableZnodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending, Steps, gather, steps

IN_FLIGHT_MAX: Final = 500
"""How many calls are made before the first answer is awaited: what they take holds the loop, and is garbage
at once. One transaction has no more operations than that, too; ZooKeeper bounds a request at 1 MB.
"""

SESSION_OVER: Final = "The controller's session is over."

T = TypeVar("T")


class ControllerMovedError(KafkaError):
    """Another controller was elected: this one must resign."""

    def __init__(self, message: str = "Controller moved to another broker.") -> None:
        super().__init__(ErrorCode.STALE_CONTROLLER_EPOCH, message)


Outcome: TypeAlias = LeaderAndIsr | Exception
"""What became of one partition in a change of many."""


@dataclass(slots=True)
class UpdateResult:
    """What became of a write of several partition states."""

    finished: dict[TopicPartition, Outcome] = field(default_factory=dict)
    to_retry: list[TopicPartition] = field(default_factory=list)
    """Partitions whose znode had another version: the leader wrote in between."""


class FencedStore:
    """Reads, and fenced writes, of one controller's term."""

    def __init__(self, store: MetadataStore, epoch: int, epoch_version: int) -> None:
        self.store = store
        self._epoch = epoch
        self._epoch_version = epoch_version
        self._over = False

    def end(self) -> None:
        """The term is over: every further call fails with ControllerMovedError."""
        self._over = True

    def check_term(self) -> None:
        """Raises ControllerMovedError once the term is over."""
        if self._over:
            raise ControllerMovedError("The controller has resigned.")

    @steps
    def write(self, *operations: Operation) -> Steps[list[Any]]:
        """One transaction, checked against the controller epoch; the results of the operations given.

        Raises ControllerMovedError, or the StoreError of the first operation that cannot be done.
        """
        self.check_term()
        check = Check(znodes.CONTROLLER_EPOCH, self._epoch_version)
        try:
            results = yield self.store.multi([check, *operations])
        except SessionExpiredError as error:
            raise ControllerMovedError(SESSION_OVER) from error
        except (BadVersionError, NoNodeError) as error:
            # The first operation is the check of the epoch; any other is the caller's own condition.
            if error.index == 0:
                raise ControllerMovedError from error
            raise
        return list(results[1:])

    @steps
    def partition_states(
        self, partitions: Sequence[TopicPartition]
    ) -> Steps[dict[TopicPartition, PartitionLeadership | Exception]]:
        """Leadership of each partition, or why there is none (NoNodeError, an unreadable payload)."""
        states: dict[TopicPartition, PartitionLeadership | Exception] = {}
        # Between two lots the term may have ended: `check_term` stops the walk.
        for some in _lots(partitions):
            self.check_term()
            reads = [self.store.get(znodes.partition_state_path(tp)) for tp in some]
            yield gather(reads)
            for tp, read in zip(some, reads, strict=True):
                if isinstance(read.error, SessionExpiredError):
                    raise ControllerMovedError(SESSION_OVER) from read.error
                if isinstance(read.error, StoreError):
                    states[tp] = read.error
                    continue
                path = znodes.partition_state_path(tp)
                state = readable(self.store, path, znodes.decode_partition_state, *read.result())
                states[tp] = UnreadableZnodeError(f"{path} is unreadable") if state is None else state
        return states

    @steps
    def create_states(
        self, leaderships: Mapping[TopicPartition, PartitionLeadership]
    ) -> Steps[dict[TopicPartition, Exception | None]]:
        """Creates the state znodes, with their parents; for each partition None or why it failed."""
        failures: dict[TopicPartition, Exception | None] = {}
        for some in _lots(list(leaderships)):
            topics = dict.fromkeys(tp.topic for tp in some)
            # Parents first; ones that exist fail with NodeExistsError, which is of no interest here.
            parents = [self.write(Create(znodes.partitions_path(topic))) for topic in topics]
            parents += [self.write(Create(znodes.partition_path(tp))) for tp in some]
            created = [
                self.write(
                    Create(znodes.partition_state_path(tp), znodes.encode_partition_state(leaderships[tp]))
                )
                for tp in some
            ]
            # The store does them in order, so a state finds its parent.
            yield gather([*parents, *created])
            _raise_if_moved(parents)
            _raise_if_moved(created)
            failures |= {tp: _failure(each) for tp, each in zip(some, created, strict=True)}
        return failures

    @steps
    def update_states(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> Steps[UpdateResult]:
        """``updateLeaderAndIsr``: writes partition states, each on condition that its znode has the state's
        partition epoch.
        """
        result = UpdateResult()
        for some in _lots(list(states.items())):
            writes = [
                self.write(
                    SetData(
                        znodes.partition_state_path(tp),
                        znodes.encode_partition_state(PartitionLeadership(state, self._epoch)),
                        state.partition_epoch,
                    )
                )
                for tp, state in some
            ]
            yield gather(writes)
            _raise_if_moved(writes)
            for (tp, state), write in zip(some, writes, strict=True):
                failure = _failure(write)
                # The version is the partition epoch: the leader has changed the ISR since it was read.
                if isinstance(failure, BadVersionError):
                    result.to_retry.append(tp)
                else:
                    result.finished[tp] = failure or state.with_partition_epoch(write.result()[0].version)
        return result

    @steps
    def unclean_election_enabled(self, topics: Iterable[str], default: bool) -> Steps[dict[str, bool]]:
        """For each topic, whether a replica outside the ISR may lead."""
        enabled = {}
        for topic in dict.fromkeys(topics):
            own = yield self.config(topic)
            if own is None:
                enabled[topic] = False  # the settings may forbid what cannot be undone
                continue
            value = own.get("unclean.leader.election.enable")
            enabled[topic] = default if value is None else value.strip().lower() == "true"
        return enabled

    @steps
    def config(self, topic: str) -> Steps[dict[str, str] | None]:
        """A topic's own settings; none where there is no znode, None where it is unreadable."""
        path = znodes.config_path("topics", znodes.sanitize(topic))
        try:
            data, _ = yield self.store.get(path)
        except NoNodeError:
            return {}
        except SessionExpiredError as error:
            raise ControllerMovedError(SESSION_OVER) from error
        return readable(self.store, path, znodes.decode_config, data)

    @steps
    def children(self, path: str) -> Steps[list[str]]:
        """The names below a path; none where it does not exist."""
        try:
            names: list[str] = yield children_if_there(self.store, path)
        except SessionExpiredError as error:
            raise ControllerMovedError(SESSION_OVER) from error
        return names

    @steps
    def delete_quietly(self, paths: Iterable[str]) -> Steps[None]:
        """Removes znodes; one that is not there is no error."""
        deletes = [self.write(Delete(path)) for path in paths]
        yield gather(deletes)
        _raise_if_moved(deletes)
        for each in deletes:
            if each.error is not None and not isinstance(each.error, NoNodeError):
                raise each.error

    @steps
    def delete_tree(self, path: str) -> Steps[None]:
        """Removes a znode with everything below it; what is not there is no error."""
        paths = yield self._paths_below(path)
        for some in _lots(paths):
            try:
                yield self.write(*map(Delete, some))
            except NoNodeError:
                # An earlier controller came so far, and died before it could remove the topic's mark.
                yield self.delete_quietly(some)

    @steps
    def _paths_below(self, path: str) -> Steps[list[str]]:
        """The path and all below, children before their parents."""
        found = [path]
        level = [path]
        while level:
            listed = [self.children(each) for each in level]
            yield gather(listed)
            level = [
                f"{parent}/{name}"
                for parent, each in zip(level, listed, strict=True)
                for name in each.result()
            ]
            found += level
        return found[::-1]


def _lots(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + IN_FLIGHT_MAX] for start in range(0, len(items), IN_FLIGHT_MAX))


def _failure(pending: "Pending[Any]") -> Exception | None:
    return pending.error if isinstance(pending.error, Exception) else None


def _raise_if_moved(pendings: Iterable["Pending[Any]"]) -> None:
    for pending in pendings:
        if isinstance(pending.error, ControllerMovedError):
            raise pending.error
