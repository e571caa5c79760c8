"""`Host`: one broker as far as groups go: the real `GroupCoordinator` over simulated partitions.

What is real: everything in ``barnabas.coordinator``, with the codecs of its records, the decoding of batches
and the loader. What is simulated: the clock, the log with its replicas, and how long a load takes.
"""

import itertools
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.broker.authorizer import AllowAll
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers import api_table
from barnabas.broker.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from barnabas.broker.handlers.delete_groups import delete_groups
from barnabas.broker.handlers.heartbeat import heartbeat
from barnabas.broker.handlers.join_group import join_group
from barnabas.broker.handlers.leave_group import leave_group
from barnabas.broker.handlers.offset_commit import offset_commit
from barnabas.broker.handlers.offset_delete import offset_delete
from barnabas.broker.handlers.offset_fetch import offset_fetch
from barnabas.broker.handlers.sync_group import sync_group
from barnabas.broker.profiles import PROFILE_3_9, PROFILE_4_4
from barnabas.coordinator.classic.groups import ClassicGroups
from barnabas.coordinator.consumer.groups import ConsumerGroups
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.runtime.loading import Loader
from barnabas.coordinator.settings import GroupSettings
from barnabas.core.config import Config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending
from barnabas.network.peer import ListenerId, Peer
from barnabas.protocol.framing import RequestHeader
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.testing.clock import ProcessClock, VirtualClock, VirtualTimer
from group_model.journal import ReplicatedPartition, SimulatedJournal
from group_model.observer import Observer
from group_model.stored_log import StoredLog
from group_model.wire import DISCONNECTED, Call, Reply

if TYPE_CHECKING:
    from barnabas.log.log import Log

_BETWEEN: Final = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
_BUFFER_BYTES: Final = 4096
_TURN_MS: Final = (0.5, 60.0)


class _LoadingClock(ProcessClock):
    """Time as the loader feels it: whenever it looks, its slice may be over, and others' turns take time."""

    def __init__(self, world: VirtualClock, rng: Random) -> None:
        super().__init__(world)
        self._rng = rng
        self._looks = itertools.count()

    def _look(self) -> float:
        return float(next(self._looks))

    def call_soon(self, callback: Callable[[], object]) -> None:
        """The next turn, after a while."""
        self.call_later(self._rng.uniform(*_TURN_MS), callback)


class Host:
    """A broker that can be killed and started again; `serve` is its face to the wire."""

    def __init__(
        self,
        number: int,
        config: Config,
        world: VirtualClock,
        rng: Random,
        *,
        partitions: Sequence[ReplicatedPartition],
        topics: TopicsImage,
        observer: Observer,
    ) -> None:
        self.number = number
        self.alive = False
        self.clock = ProcessClock(world)
        self.leads: dict[int, int] = {}
        """The partitions that it believes to lead, with the leader epoch since which it does so."""
        self.leaders: dict[int, int | None] = {}
        """The leader of each partition, as it heard from the controller."""
        self.parked: dict[Call, Callable[[Reply], object]] = {}
        self._settings = GroupSettings.of(config)
        # No group has settings of its own here.
        self._group_configs = GroupConfigManager(config, {})
        self._world = world
        self._rng = rng
        self._partitions = partitions
        self._topics = topics
        self._observer = observer
        self._journals: dict[int, SimulatedJournal] = {}
        self._loading_clock = _LoadingClock(world, rng)
        self.coordinator: GroupCoordinator | None = None

    # --- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process; it leads nothing yet."""
        self.alive = True
        self.clock = ProcessClock(self._world)
        self._loading_clock = _LoadingClock(self._world, self._rng)
        self.coordinator = self._build()
        self.coordinator.startup(len(self._partitions))

    def _build(self) -> GroupCoordinator:
        settings, clock, rng = self._settings, self.clock, self._rng

        def new_uuid() -> str:
            return f"{rng.getrandbits(64):016x}"

        classic = ClassicGroups(settings, clock, new_uuid)
        loading_clock = self._loading_clock
        loading_clock.monotonic_ms = loading_clock._look
        return GroupCoordinator(
            settings,
            clock,
            self._group_configs,
            classic=classic,
            consumer=(
                ConsumerGroups(classic, self._group_configs, clock, self._topics)
                if "consumer" in settings.rebalance_protocols
                else None
            ),
            loader=Loader(
                loading_clock,
                InPlace(),
                cast("Any", None),
                buffer_bytes=_BUFFER_BYTES,
                settle=lambda: None,
            ),
            journal=self._journals.__getitem__,
            log=lambda partition: cast("Log", StoredLog(self._partitions[partition], self._world.time_ms())),
        )

    def kill(self) -> None:
        """Kill -9: no request is answered, connections break."""
        self.alive = False
        self.coordinator = None
        self.clock.die()
        self._loading_clock.die()
        self.leads.clear()
        self.leaders.clear()
        self._journals.clear()
        parked, self.parked = self.parked, {}
        for respond in parked.values():
            respond(DISCONNECTED)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """LeaderAndIsr: this broker leads the partition."""
        assert self.coordinator is not None
        self.leaders[partition] = self.number
        journal = self._journals.get(partition)
        if journal is not None and partition in self.leads:
            journal.leader_epoch = leader_epoch
        else:
            self.leads[partition] = leader_epoch
            self._journals[partition] = SimulatedJournal(
                self._partitions[partition],
                broker=self.number,
                leader_epoch=leader_epoch,
                clock=self.clock,
                timeout_ms=self._settings.offsets_commit_timeout_ms,
            )
        self.coordinator.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int, leader: int | None) -> None:
        """LeaderAndIsr: another broker leads the partition."""
        assert self.coordinator is not None
        self.leaders[partition] = leader
        journal = self._journals.get(partition)
        led = self.leads.pop(partition, None)
        if journal is not None and led is not None:
            journal.resign()
        self.coordinator.resigned(partition, leader_epoch)
        if led is not None:
            self._observer.resigned(self.number, partition, list(self.parked))
        if not self.leads and len(self.clock.armed) > 1:
            self._observer.complain("leak", f"{self} has timers and no groups: {self.armed}")

    def metadata_changed(self, topics: set[str]) -> None:
        """UpdateMetadata."""
        if self.coordinator is not None:
            self.coordinator.metadata_changed(topics)

    # --- what is known of it ------------------------------------------------------------------------------

    def is_rebalancing(self, partition: int) -> bool:
        """Whether a group of this partition, which it coordinates, is between two generations."""
        coordinator = self.coordinator
        return coordinator is not None and any(
            group.state_name in _BETWEEN and coordinator.partition_for(group.group_id) == partition
            for group in coordinator.groups()
        )

    def leads_truly(self, partition: ReplicatedPartition) -> bool:
        """Whether it leads the partition, and has heard of it."""
        journal = self._journals.get(partition.number)
        return (
            partition.leader == self.number
            and journal is not None
            and partition.number in self.leads
            and journal.leader_epoch == partition.leader_epoch
        )

    @property
    def armed(self) -> list[VirtualTimer]:
        """Its timers, in the order of their times."""
        armed = [*self.clock.armed, *self._loading_clock.armed]
        return sorted(armed, key=lambda timer: timer.when_ms)

    def groups(self) -> list[tuple[str, str]]:
        """The groups that it knows, with their states."""
        assert self.coordinator is not None
        return [(group.group_id, group.state_name) for group in self.coordinator.groups()]

    def shutdown(self) -> None:
        """An orderly end of its coordinator."""
        assert self.coordinator is not None
        self.coordinator.shutdown()

    # --- serving ------------------------------------------------------------------------------------------

    def find_coordinator(self, group_id: str) -> int | None:
        """The leader of the group's partition, as this broker heard last."""
        if self.coordinator is None:
            return None
        return self.leaders.get(self.coordinator.partition_for(group_id))

    def serve(self, call: Call, respond: Callable[[Reply], object]) -> None:
        """Carries a call out; an exception that is not expected is noted as a crash."""
        coordinator = self.coordinator
        if coordinator is None:
            respond(DISCONNECTED)
            return
        partition = coordinator.partition_for(call.group_id)
        call.leadership = partition, self.leads.get(partition, -1)
        call.invoked_ms = self._world.now_ms
        self._observer.invoked(call)
        try:
            answer = carry_out(coordinator, call)
        except Exception as error:
            self._answered(call, self._reply_to(error), respond)
            return
        if isinstance(answer, Pending):
            self.parked[call] = respond
            answer.when_done(lambda done: self._unparked(call, done))
        else:
            self._answered(call, reply_of(answer), respond)

    def _unparked(self, call: Call, done: "Pending[Any]") -> None:
        respond = self.parked.pop(call, None)
        if respond is not None:  # a dead broker does not answer
            reply = reply_of(done.result()) if done.error is None else self._reply_to(done.error)
            self._answered(call, reply, respond)

    def _reply_to(self, error: BaseException) -> Reply:
        if isinstance(error, KafkaError):
            return Reply(error.code)
        self._observer.crashed(f"broker {self.number}", error)
        return Reply(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _answered(self, call: Call, reply: Reply, respond: Callable[[Reply], object]) -> None:
        call.answered_ms = self._world.now_ms
        self._observer.answered(call, reply)
        respond(reply)

    def __repr__(self) -> str:
        return f"<Host {self.number} {'alive' if self.alive else 'dead'} leads={sorted(self.leads)}>"


_HANDLERS: Final[dict[type, Callable[[RequestContext, Any], Any]]] = {
    DeleteGroupsRequest: delete_groups,
    OffsetCommitRequest: offset_commit,
    OffsetDeleteRequest: offset_delete,
    ConsumerGroupHeartbeatRequest: consumer_group_heartbeat,
    HeartbeatRequest: heartbeat,
    JoinGroupRequest: join_group,
    LeaveGroupRequest: leave_group,
    SyncGroupRequest: sync_group,
}


_TABLE: Final = api_table(PROFILE_3_9)


class _Everything:
    """The partitions of a cluster in which every topic has all that are asked for."""

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, topic: str) -> "_Everything":
        return self


def _context(coordinator: GroupCoordinator, call: Call) -> RequestContext:
    services = SimpleNamespace(
        group_coordinator=coordinator,
        authorizer=AllowAll(),
        clock=coordinator._clock,
        api_table=_TABLE,
        config={"group.coordinator.rebalance.protocols": ["classic", "consumer"]},
        features=PROFILE_4_4.feature_levels(),
        metadata_cache=SimpleNamespace(snapshot=SimpleNamespace(partitions=_Everything())),
    )
    peer = Peer(ListenerId("PLAINTEXT", "PLAINTEXT"), ("10.0.1.1", 9999))
    header = RequestHeader(0, call.version, 0, call.client_id)
    return RequestContext(cast("Any", services), header, peer, 0)


def carry_out(coordinator: GroupCoordinator, call: Call) -> Any:
    """What the handler of the request's API does."""
    request = call.request
    handler = _HANDLERS.get(type(request))
    if handler is not None:
        return handler(_context(coordinator, call), request)
    match request:
        case OffsetFetchRequestGroup():
            # Each group has a request of its own in the model, which only versions since 8 have room for.
            context = _context(coordinator, call)
            context.version = 9
            return offset_fetch(context, OffsetFetchRequest(groups=[request])).groups[0]
    raise TypeError(f"no member sends {request!r}")


def reply_of(body: Any) -> Reply:
    """The response with the error that stands for the whole of it."""
    if isinstance(body, OffsetCommitResponse):
        codes = [partition.error_code for topic in body.topics for partition in topic.partitions]
        return Reply(ErrorCode(next(filter(None, codes), 0)), body)
    if isinstance(body, DeleteGroupsResponse):
        return Reply(ErrorCode(body.results[0].error_code), body)
    return Reply(ErrorCode(getattr(body, "error_code", 0)), body)
