"""What a scenario sees of one side: it asks, and what comes back is written down.

Theory of operation
-------------------
A scenario runs once a side, with a `World` each. `ask` sends one request at the lowest and the highest
version that Barnabas serves, or at those it is given, and records each answer under the scenario, what was
asked, and the version. `prepare` asks without recording, for what a scenario needs but does not judge.
Nothing in a scenario may depend on the side it runs against.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from barnabas.protocol.api import ApiKey
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from parity.compare import Step
from parity.normal import Normalizer
from parity.sides import Side
from parity.tree import Tree, decode
from parity.wire import CLOSED, Wire, frame_of

Asked = Request | Callable[[int], Request]
"""A request, or what makes one for a version."""


CREATE_VERSION: Final = 7
LIST_OFFSETS_VERSION: Final = 7
METADATA_VERSION: Final = 12
PATIENCE_S: Final = 20
SILENCE_S: Final = 5
"""How long an answer is waited for that is known not to come."""
PRODUCE_VERSION: Final = 9


class World:
    """One side during one scenario."""

    def __init__(
        self,
        side: Side,
        normalizer: Normalizer,
        scenario: str,
        never_answers: Callable[[str], bool] = lambda _where: False,
    ) -> None:
        """`never_answers` says of a step whether this side is known to leave it without an answer."""
        self.side = side
        self.table = side.table
        self.steps: list[Step] = []
        self.asked: set[tuple[int, int]] = set()
        """The APIs and versions that were asked."""
        self._normalizer = normalizer
        self._scenario = scenario
        self._never_answers = never_answers
        self._wires: dict[bool, Wire] = {}
        """Of who prepares, and of who asks."""

    def ask(self, what: str, request: Asked, *versions: int) -> Any:
        """Sends a request and records the answer, at each version;
        returns the last response (None: no answer).
        """
        response = None
        for version in versions or self._lowest_and_highest(request):
            made = request(version) if callable(request) else request
            response = self.send(f"{what} / v{version}", frame_of(made, version))
        return response

    def send(self, what: str, frame: bytes) -> Any:
        """Sends a frame as it is and records the answer; returns the response where it is one."""
        key, version = (int.from_bytes(frame[at : at + 2], "big", signed=True) for at in (0, 2))
        self.asked.add((key, version))
        silent = self._never_answers(self._where(what))
        return self.record(what, key, version, self._exchange([frame], silent=silent))

    def send_bytes(self, what: str, data: bytes) -> None:
        """Sends bytes that are no frame and records what comes of it."""
        with self.side.wire() as wire:
            self.record(what, -1, 0, wire.send_bytes(data))

    def in_order(self, what: str, names: list[str]) -> None:
        """Records names in the order in which they came:
        answers are compared whatever the order of their entries.
        """
        self.steps.append(Step(self._where(what), {"records": self._normalizer.normal(names, "records")}))

    def tell(self, what: str, request: Request, version: int) -> None:
        """Sends a request that has no answer, and records whether the next one on the connection
        has its own.
        """
        assert request.api is not None
        self.asked.add((request.api, version))
        follow_up = frame_of(MetadataRequest(topics=[]), METADATA_VERSION, correlation_id=8)
        answer = self._exchange([frame_of(request, version), follow_up])
        self.record(f"{what} / v{version}", ApiKey.METADATA, METADATA_VERSION, answer)

    def park(self, what: str, request: Request, version: int) -> "Parked":
        """Sends a request on a connection of its own; its answer is recorded when it is waited for."""
        assert request.api is not None
        self.asked.add((request.api, version))
        return Parked(self, f"{what} / v{version}", frame_of(request, version))

    def prepare(self, request: Request, version: int) -> Any:
        """The response to a request that nobody judges."""
        assert request.api is not None
        answer = self._exchange([frame_of(request, version)], prepares=self.side.mode.user != "")
        assert isinstance(answer, bytes), f"{self.side!r}: {request!r}: {answer}"
        response, tree = decode(request.api, version, answer)
        assert response is not None, tree
        return response

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Makes a topic whose records never get too old; underscores in names of configurations are dots."""
        given = {"retention.ms": "-1"} | {name.replace("_", "."): value for name, value in configs.items()}
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in given.items()],
        )
        made = self.prepare(CreateTopicsRequest(topics=[wanted]), CREATE_VERSION).topics[0]
        assert made.error_code == 0, f"{self.side!r}: {made!r}"
        self._until_led(topic, partitions)

    def _until_led(self, topic: str, partitions: int) -> None:
        """Waits for the leaders: Kafka 4 answers CreateTopics before its broker leads."""
        asked = [ListOffsetsPartition(partition_index=each, timestamp=-1) for each in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
        deadline = time.monotonic() + PATIENCE_S
        while any(
            each.error_code for each in self.prepare(request, LIST_OFFSETS_VERSION).topics[0].partitions
        ):
            assert time.monotonic() < deadline, f"{self.side!r} does not lead {topic}"
            time.sleep(0.01)

    def topic_id(self, topic: str) -> bytes:
        """The id that this side gave a topic."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        found = self.prepare(request, METADATA_VERSION).topics[0].topic_id
        assert isinstance(found, bytes)
        self._normalizer.normal(found, "topic_id")
        return found

    def append(self, topic: str, *batches: bytes, partition: int = 0) -> None:
        """Writes batches that nobody judges."""
        for records in batches:
            data = TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
            )
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
            answer = self.prepare(request, PRODUCE_VERSION).responses[0].partition_responses[0]
            assert answer.error_code == 0, f"{self.side!r}: {answer!r}"

    def ended(self, error: Exception) -> None:
        """Records that the scenario could not go on: both sides have to end in the same place."""
        self.steps.append(Step(self._where("the end"), type(error).__name__))

    def close(self) -> None:
        """Ends the connections that there are."""
        while self._wires:
            self._wires.popitem()[1].close()

    def _exchange(self, frames: list[bytes], *, prepares: bool = False, silent: bool = False) -> bytes | str:
        if prepares not in self._wires:
            self._wires[prepares] = self.side.wire(prepares=prepares)
        self._wires[prepares].be_patient(SILENCE_S if silent else PATIENCE_S)
        answer = self._wires[prepares].ask_all(frames)
        if isinstance(answer, str):
            self.close()
        return answer

    def record(self, what: str, key: int, version: int, answer: bytes | str) -> Any:
        """Writes an answer down; the response, where it is one."""
        response: Response | None = None
        tree: Tree = answer
        if isinstance(answer, bytes):
            response, tree = decode(ApiKey(key), version, answer)
        where = self._where(what)
        assert where not in {step.where for step in self.steps}, f"{where} is asked twice"
        self.steps.append(Step(where, self._normalizer.normal(tree)))
        return response

    def _where(self, what: str) -> str:
        return f"{self._scenario} / {what}"

    def _lowest_and_highest(self, request: Asked) -> Iterable[int]:
        key = (request(0) if callable(request) else request).api
        assert key is not None
        api = self.table[key]
        return dict.fromkeys((api.min_version, api.max_version))

    def __repr__(self) -> str:
        return f"<World {self._scenario} of {self.side!r} steps={len(self.steps)}>"


class Parked:
    """A request that was sent on a connection of its own; its answer is recorded when it is asked for."""

    def __init__(self, world: World, what: str, frame: bytes) -> None:
        self._world = world
        self._what = what
        self._key, self._version = (int.from_bytes(frame[at : at + 2], "big", signed=True) for at in (0, 2))
        self._wire = world.side.wire()
        self._wire.send(frame)

    def answers_within(self, seconds: float) -> bool:
        """Whether the answer comes in this time."""
        return self._wire.answers_within(seconds)

    def answer(self) -> Any:
        """Waits for the answer and records it; the response."""
        with self._wire as wire:
            return self._world.record(self._what, self._key, self._version, wire.receive())

    def abandon(self) -> None:
        """Goes without waiting for the answer."""
        self._wire.close()

    def __repr__(self) -> str:
        return f"<Parked {self._what}>"


__all__ = ["CLOSED", "Asked", "Parked", "World"]
