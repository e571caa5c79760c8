"""`ConsumerMember`: a consumer of the new protocol, as Kafka's client does it (KIP-848,
``ConsumerMembershipManager``).

One generator reads and commits, another one speaks to the coordinator and follows what it says: first it
gives up what it may not have any more, then it says so, then it takes what it is given.
"""

from typing import TYPE_CHECKING, Final

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from group_model.member import LATE_COMMITS, LOST_COORDINATOR, Member, by_topic

if TYPE_CHECKING:
    from group_model.wire import Reply

_JOIN: Final = 0
_LEAVE: Final = -1
_LEAVE_STATIC: Final = -2
_LOST_MEMBERSHIP: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)
_FATAL: Final = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID})
_HARMLESS: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH}
)


class ConsumerMember(Member):
    """Speaks version 1 of the heartbeat: it makes its member id itself."""

    def begin(self) -> None:
        """A process joins again."""
        self.member_id = f"{self.life.name}-{self.rng.getrandbits(32):08x}"
        self.epoch = _JOIN
        self._target: frozenset[TopicPartition] | None = None
        """Its target, as long as it has not reached it."""
        self._said: frozenset[TopicPartition] | None = None
        """What the coordinator knows that it owns; None where the member must tell everything."""
        self._beats()

    @property
    def settled(self) -> bool:
        """Whether it is dead, or has reached its target and has said so."""
        return not self.life.alive or (
            self.epoch > 0 and self._target is None and self._said == frozenset(self.owned)
        )

    def identity(self) -> tuple[int, str]:
        """Member epoch and id."""
        return self.epoch, self.member_id

    def fetch_request(self, tps: list[TopicPartition]) -> OffsetFetchRequestGroup:
        """Says who asks: a member of an older epoch must not go on from the answer."""
        request = super().fetch_request(tps)
        request.member_id, request.member_epoch = self.member_id, self.epoch
        return request

    # --- reading ------------------------------------------------------------------------------------------

    def main(self) -> Steps[None]:
        """Reads and commits until it is stopped or refused; then it leaves."""
        while not self.stopping and self.refused is None:
            yield from self.find_coordinator()
            if self.epoch > 0:
                self._told("fetch", (yield from self.fetch_positions()))
            for _ in range(self.habits.polls_a_commit):
                self.read()
                yield self.life.sleep(self.habits.poll_ms * self.rng.uniform(0.5, 1.5))
            if self.epoch > 0:
                self._told("commit", (yield from self.commit()))
                if self.rng.random() < LATE_COMMITS:
                    yield from self.commit_late()
        if self.refused is None and self.epoch > 0 and self.coordinator is not None:
            yield from self._leave()

    def _leave(self) -> Steps[None]:
        yield from self.commit()
        epoch, self.epoch = self.epoch, _JOIN
        self.positions.at.clear()
        if self.coordinator is not None and epoch > 0:
            goodbye = _LEAVE if self.habits.instance_id is None else _LEAVE_STATIC
            yield self.call(
                ConsumerGroupHeartbeatRequest(
                    group_id=self.habits.group_id,
                    member_id=self.member_id,
                    member_epoch=goodbye,
                    instance_id=self.habits.instance_id,
                ),
                1,
            )

    # --- heartbeats ---------------------------------------------------------------------------------------

    @steps
    def _beats(self) -> Steps[None]:
        """What the client's network thread does."""
        while self.refused is None and not self.stopping:
            yield from self.find_coordinator()
            asked = self.epoch
            request = self._request()
            reply: Reply = yield self.call(request, 1)
            if self.stopping or asked != self.epoch:
                continue
            if reply.ok:
                yield from self._heard(request, reply.body)
            else:
                self._said = None  # it is not known what the coordinator has heard
                self._told("heartbeat", reply.code)
            yield self.life.sleep(200.0 if self._hurries else self.habits.heartbeat_ms)

    @property
    def _hurries(self) -> bool:
        return self.epoch == _JOIN or self._said != frozenset(self.owned)

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        owned = frozenset(self.owned)
        tells_all = self.epoch == _JOIN or self._said is None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.habits.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.habits.instance_id,
            rebalance_timeout_ms=self.habits.rebalance_timeout_ms if tells_all else -1,
            subscribed_topic_names=list(self.habits.topics) if tells_all else None,
            topic_partitions=self._by_id(owned) if tells_all or owned != self._said else None,
        )

    def _heard(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse
    ) -> Steps[None]:
        if request.topic_partitions is not None:
            self._said = self._flat(request.topic_partitions)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self._target = self._flat(response.assignment.topic_partitions)
        if self._target is not None:
            yield from self._reconcile(self._target)

    def _reconcile(self, target: frozenset[TopicPartition]) -> Steps[None]:
        at, epoch = self.positions.at, self.epoch
        revoked = [tp for tp in at if tp not in target]
        if revoked:
            # Listeners take their time, less than the rebalance time-out mostly.
            yield self.life.sleep(self.rng.choice([1.0, 1.0, 300.0, 3000.0]))
            yield from self.commit()
            if self.epoch < epoch:
                return
            for tp in revoked:
                at.pop(tp, None)
        for tp in sorted(target):
            at.setdefault(tp, None)
        self._target = None

    def _told(self, what: str, code: ErrorCode) -> None:
        if code in LOST_COORDINATOR or code is ErrorCode.REQUEST_TIMED_OUT:
            self.coordinator = None
        elif code in _LOST_MEMBERSHIP:
            self.epoch = _JOIN
            self._target = self._said = None
            self.positions.at.clear()
        elif code in _FATAL:
            self.refused = code
            self.positions.at.clear()
        elif code not in _HARMLESS:
            self.context.observer.unexpected(self.life.name, what, code)

    # --- topics by id -------------------------------------------------------------------------------------

    def _by_id(self, tps: frozenset[TopicPartition]) -> list[TopicPartitions]:
        by_name = self.context.topics.by_name
        return [
            TopicPartitions(topic_id=by_name[topic].id, partitions=numbers)
            for topic, numbers in by_topic(sorted(tps)).items()
        ]

    def _flat(self, topics: list[TopicPartitions]) -> frozenset[TopicPartition]:
        by_id = self.context.topics.by_id
        return frozenset(
            TopicPartition(by_id[topic.topic_id].name, number)
            for topic in topics
            for number in topic.partitions
        )
