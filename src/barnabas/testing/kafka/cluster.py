"""`Kafka`: one broker or several in this process, for as long as a test needs them."""

import asyncio
import itertools
import select
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from barnabas.admin import Admin, GroupDescription, GroupState, NewTopic, OffsetAndMetadata
from barnabas.client import ConsumerRecord, TopicPartition
from barnabas.client.sync import LoopThread
from barnabas.core.errors import BarnabasError
from barnabas.network.event_loop import BrokerEventLoop
from barnabas.node.broker_node import BrokerNode
from barnabas.node.environment import METADATA_FILE
from barnabas.testing.kafka import inspection
from barnabas.testing.kafka.clock import MovableClock
from barnabas.testing.kafka.fault import Fault
from barnabas.testing.kafka.full_disk import FullDisk
from barnabas.testing.kafka.own_folder import OwnFolder
from barnabas.testing.kafka.planted import WAIT_S, PlantedFault, PlantedFaults
from barnabas.testing.kafka.running import RunningBroker
from barnabas.testing.kafka.users import Users

BROKERS_MAX: Final = 50
"""More brokers than this in one process are a slip of the pen."""


class Kafka:
    """A cluster of real brokers inside this process, on free ports of 127.0.0.1.

    Use it as a context manager, or call `start` and `stop`. Any client of any language reaches it at
    `bootstrap_servers`. All methods block, and may be called from any thread.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        settings: Mapping[str, Any] | None = None,
        data: str | Path | None = None,
        secure: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are keys of a broker's configuration, for all brokers. With `data` everything is kept
        in that folder, and found there by the next one; without, it lies in memory where the machine has
        room, and goes with the cluster. What a process that was killed has left goes with the next cluster.

        With `secure`, names of users and their passwords, clients log in with PLAIN (SASL_PLAINTEXT, see
        `client`) and may do what the rules allow that the test makes (`admin.acls`): nothing at first. The
        methods of this object do not log in, and may do everything.

        Raises ValueError for a number of brokers, or a name of a user, that cannot be.
        """
        if not 1 <= brokers <= BROKERS_MAX:
            raise ValueError(f"brokers={brokers}: it is from 1 to {BROKERS_MAX}")
        self._number = brokers
        self._users = Users(secure)
        self._settings = {key: _text(value) for key, value in (settings or {}).items()}
        self._data = None if data is None else Path(data)
        self._faults = PlantedFaults()
        self._names = itertools.count(1)
        self._brokers: dict[int, RunningBroker] = {}
        self._thread: LoopThread | None = None
        self._folder: Path | None = None
        self._own_folder: OwnFolder | None = None
        self._clock: MovableClock | None = None

    # ------------------------------------------------------------------------------------- its life

    def start(self) -> Self:
        """Starts all brokers; returns when they are ready. Raises StartError, ConfigError; nothing runs
        then.
        """
        if self._thread is not None:
            return self
        if self._data is None:
            self._own_folder = OwnFolder()
            folder = self._own_folder.path
        else:
            folder = self._data
            folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        loop = BrokerEventLoop() if hasattr(select, "epoll") else asyncio.SelectorEventLoop()
        thread = self._thread = LoopThread("barnabas-kafka", loop)
        self._clock = MovableClock(loop)
        defaults = {"offsets.topic.replication.factor": str(min(self._number, 3))}
        defaults["transaction.state.log.replication.factor"] = defaults["offsets.topic.replication.factor"]
        defaults["transaction.state.log.min.isr"] = str(min(self._number, 2))
        settings = {**defaults, **self._users.settings(), **self._settings}
        try:
            for broker_id in range(self._number):
                broker = RunningBroker(broker_id, folder, settings, self._faults, log_in=self._users.log_in)
                self._brokers[broker_id] = broker
                thread.run(broker.start(self._clock))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends all brokers: a single one in order, several at once, as nobody is left to lead their
        partitions. Harmless when repeated.
        """
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self.clear_faults()
        if "admin" in self.__dict__:
            self.admin.close()
            del self.__dict__["admin"]
        try:
            for broker in self._brokers.values():
                thread.run(broker.stop() if len(self._brokers) == 1 else broker.kill())
                broker.release_port()
        finally:
            self._brokers.clear()
            thread.close()
            if self._own_folder is not None:
                self._own_folder.remove()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ----------------------------------------------------------------------------------- its brokers

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin: ``host:port``, separated by commas; brokers that are down are named too."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self._running().values())

    def client(self, user: str) -> dict[str, str]:
        """How a user of `secure` connects, by the keys of Kafka's clients, which ours and the tools take too.
        Raises KeyError for one that there is not.
        """
        return {"bootstrap.servers": self.bootstrap_servers, **self._users.client(user)}

    @property
    def _own_servers(self) -> str:
        """Where this object itself begins."""
        return ",".join(f"127.0.0.1:{broker.own_port}" for broker in self._running().values())

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that run."""
        return tuple(broker.id for broker in self._running().values() if broker.runs)

    def node(self, broker: int) -> BrokerNode:
        """A broker's own object, for a look inside from its loop. Raises BarnabasError while it is down."""
        node = self._broker(broker).node
        if node is None:
            raise BarnabasError(f"broker {broker} is down")
        return node

    def kill(self, broker: int) -> None:
        """Ends a broker as if its process had died; `restart` brings it back at the same port."""
        running = self._broker(broker)
        self._loop.run(running.kill())
        running.hold_port()

    def stop_broker(self, broker: int) -> None:
        """Ends a broker in order: it hands over what it leads."""
        running = self._broker(broker)
        self._loop.run(running.stop())
        running.hold_port()

    def restart(self, broker: int) -> None:
        """Starts a broker again at its port, or stops and starts one that runs."""
        running = self._broker(broker)
        if running.runs:
            self.stop_broker(broker)
        assert self._clock is not None, "it has started"
        self._loop.run(running.start(self._clock))

    def advance(self, seconds: float) -> None:
        """Moves the brokers' time on: time-outs, retention and expiry that were to come meanwhile come now.

        Clients keep their own time, and so do sessions of the metadata store.
        """

        async def move() -> None:
            assert self._clock is not None, "it has started"
            self._clock.advance(seconds * 1000)

        self._loop.run(move())

    # --------------------------------------------------------------------------------------- faults

    def plant(self, fault: Fault | None = None, **fields: Any) -> PlantedFault:
        """Puts a fault to work, given as one or by its fields; what is returned counts, waits and removes
        it.
        """
        if fault is not None and fields:
            raise ValueError("give a Fault, or its fields, not both")
        return self._faults.plant(Fault.of(fields) if fault is None else fault)

    def fill_disk(self, broker: int = 0) -> FullDisk:
        """Has a broker's disk be full until what is returned is removed, or its with block ends: nothing
        more is written to its log directory, and what is there is served. It stays so over `restart`.

        A write that finds no room is answered with KAFKA_STORAGE_ERROR, which clients try again. The
        metadata store has room all the while.
        """
        disk = self._broker(broker).disk
        disk.fill()
        return FullDisk(broker, disk)

    def clear_faults(self) -> None:
        """Takes all faults away; disks have room again."""
        self._faults.clear()
        for broker in self._brokers.values():
            broker.disk.free()

    # -------------------------------------------------------------------------------- topics, looks

    @cached_property
    def admin(self) -> Admin:
        """An admin client of this cluster."""
        return Admin(self._own_servers)

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, Any] | None = None,
    ) -> str:
        """Makes a topic, with a new name where none is given, and with as many replicas as there are
        brokers, at most three. Returns its name; raises KafkaError.
        """
        name = name or f"topic-{next(self._names)}"
        replicas = replication_factor or min(self._number, 3)
        values = {key: _text(value) for key, value in (configs or {}).items()}
        self.admin.topics.create(NewTopic(name, partitions, replicas, configs=values))
        return name

    def records(
        self, topic: str, partition: int | None = None, *, isolation_level: str = "read_uncommitted"
    ) -> list[ConsumerRecord]:
        """All records of a topic, or of one partition: each partition in its order, one after the other."""
        partitions = None if partition is None else [partition]
        return inspection.records_of(self.admin, self._own_servers, topic, partitions, isolation_level)

    def offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed."""
        committed = self.admin.groups.offsets(group)[group]
        return {tp: offset for tp, offset in committed.items() if offset is not None}

    def group(self, group: str) -> GroupDescription:
        """A group as its coordinator describes it: state, members, assignments."""
        description: GroupDescription = self.admin.groups.describe(group)[group]
        return description

    def wait_for_group(
        self,
        group: str,
        *,
        state: str | GroupState = GroupState.STABLE,
        members: int | None = None,
        timeout_s: float = WAIT_S,
    ) -> GroupDescription:
        """The group, once it is in that state with so many members; raises AssertionError when it is not in
        time, ValueError for a state that is none.
        """
        return inspection.group_in(self.admin, group, state, members, timeout_s)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition; -1 for none."""
        return inspection.leader_of(self.admin, topic, partition)

    def move_leader(self, topic: str, partition: int, broker: int, *, timeout_s: float = WAIT_S) -> None:
        """Makes a broker the leader of a partition, and its replica if it is none; returns when it leads.

        Raises KafkaError, and AssertionError when it does not lead in time.
        """
        inspection.move_leader(self.admin, topic, partition, broker, timeout_s)

    def znode(self, path: str) -> Any:
        """The data of a znode of the metadata store, JSON decoded; raises KeyError where there is none."""
        return inspection.znode_of(self._store, path)

    def znodes(self, path: str) -> list[str]:
        """The names below a path of the metadata store; raises KeyError where it is not."""
        return inspection.znodes_below(self._store, path)

    # -------------------------------------------------------------------------------------- private

    @property
    def _store(self) -> Path:
        self._running()
        assert self._folder is not None, "it has started"
        return self._folder / METADATA_FILE

    @property
    def _loop(self) -> LoopThread:
        if self._thread is None:
            raise BarnabasError("this Kafka does not run: use it in a with statement, or call start()")
        return self._thread

    def _running(self) -> dict[int, RunningBroker]:
        _ = self._loop
        return self._brokers

    def _broker(self, broker: int) -> RunningBroker:
        known = self._running()
        if broker not in known:
            raise ValueError(f"there is no broker {broker}: {', '.join(map(str, known))}")
        return known[broker]

    def __repr__(self) -> str:
        if self._thread is None:
            return f"<Kafka of {self._number}, not running>"
        return f"<Kafka {self.bootstrap_servers} brokers={list(self.brokers)}>"


def _text(value: Any) -> str:
    """A setting as it stands in a file."""
    return str(value).lower() if isinstance(value, bool) else str(value)
