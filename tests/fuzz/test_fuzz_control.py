"""What takes a broker apart when it is right, said nearly right: topics made and deleted, roles given and
taken.

Messages are mutated by their schema, so that most arrive whole and absurd: the greatest numbers, names that
no topic may have, thousands of partitions. Each may be refused or obeyed; none may end the broker, fill its
memory, or leave a directory from which it does not start again.
"""

import copy
import random
import time

import pytest
from test_fuzz_broker import PATIENCE_S, mutated, with_length
from wire_peer import batch, frame_of

from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.protocol.schema import Struct, resolved

SECONDS = 6
TRIED_MIN = 100
ANSWERED_MIN = 50
GROWTH_MAX_BYTES = 48 << 20
LIST_MAX = 50

NAMES = [
    "fuzz",
    "other",
    "",
    ".",
    "..",
    "../../up",
    "a b",
    "a/b",
    "x" * 249,
    "x" * 250,
    "\0",
    "é",
    "__consumer_offsets",
]
BYTES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}


def requests():
    """One sensible request for each API and way of saying it."""
    role = {"controller_epoch": 1, "leader": 0, "leader_epoch": 1, "isr": [0], "replicas": [0]}
    led = LeaderAndIsrPartitionState(is_new=True, **role)
    told = UpdateMetadataPartitionState(**role)
    endpoint = UpdateMetadataEndpoint(host="h", port=9, listener="PLAINTEXT")
    places = [CreatableReplicaAssignment(broker_ids=[0])]
    settings = [CreatableTopicConfig(name="retention.ms", value="-1")]
    altered = AlterPartitionRequestPartitionData(new_isr=[0])
    controller = {"controller_id": 0, "controller_epoch": 1}
    return [
        CreateTopicsRequest(
            topics=[
                CreatableTopic(name="new", num_partitions=1, replication_factor=1, configs=settings),
                CreatableTopic(name="placed", num_partitions=-1, replication_factor=-1, assignments=places),
            ],
            timeout_ms=100,
        ),
        DeleteTopicsRequest(topic_names=["new"], timeout_ms=100),
        DeleteTopicsRequest(topics=[DeleteTopicState(name="new")], timeout_ms=100),
        LeaderAndIsrRequest(
            live_leaders=[LeaderAndIsrLiveLeader(host_name="h", port=9)],
            topic_states=[
                LeaderAndIsrTopicState(topic_name="led", topic_id=b"\x11" * 16, partition_states=[led])
            ],
            **controller,
        ),
        UpdateMetadataRequest(
            topic_states=[
                UpdateMetadataTopicState(topic_name="told", topic_id=b"\x22" * 16, partition_states=[told])
            ],
            live_brokers=[UpdateMetadataBroker(id=0, endpoints=[endpoint], rack="r")],
            **controller,
        ),
        StopReplicaRequest(topics=[StopReplicaTopicV1(name="led", partition_indexes=[0])], **controller),
        StopReplicaRequest(
            topic_states=[
                StopReplicaTopicState(
                    topic_name="led", partition_states=[StopReplicaPartitionState(delete_partition=True)]
                )
            ],
            **controller,
        ),
        ControlledShutdownRequest(broker_id=9),
        AllocateProducerIdsRequest(broker_id=0),
        AlterPartitionRequest(
            topics=[AlterPartitionRequestTopicData(topic_name="fuzz", partitions=[altered])]
        ),
    ]


def places(message):
    """Every (struct, field) of a message."""
    found = []
    for name, declared in resolved(type(message)).items():
        found.append((message, name, declared))
        value = getattr(message, name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct):
                found += places(each)
    return found


def is_vast(found):
    """Whether a list is so long that to multiply it once more would only say something about gigabytes."""
    values = (getattr(struct, name) for struct, name, declared in found if declared.is_array)
    return any(len(value) > LIST_MAX for value in values if value)


def make_absurd(random, message):
    """Puts something else of the same type into one field."""
    found = places(message)
    if is_vast(found):
        return
    struct, name, declared = random.choice(found)
    value = getattr(struct, name)
    if declared.is_array and value:
        setattr(struct, name, random.choice([[], value * 2, value * random.choice([10, 1000])]))
    elif declared.is_array:
        setattr(
            struct, name, [absurd(random, declared.kind)] if declared.struct is None else [declared.struct()]
        )
    elif declared.struct is None:
        setattr(struct, name, absurd(random, declared.kind))


def absurd(random, kind):
    if kind.name in BYTES:
        limit = 1 << (8 * BYTES[kind.name] - 1)
        return random.choice([0, 1, 2, -1, -2, limit - 1, -limit, random.randrange(-limit, limit)])
    if kind.name == "bool":
        return random.random() < 0.5
    if kind.name == "uuid":
        return random.choice([bytes(16), b"\x11" * 16, random.randbytes(16)])
    return random.choice(NAMES)


def a_frame(random, corpus):
    """A whole frame without its length, absurd inside; now and then broken as well."""
    while True:
        message = copy.deepcopy(random.choice(corpus))
        for _ in range(random.choice([0, 1, 1, 2, 4])):
            make_absurd(random, message)
        if hasattr(message, "controller_epoch"):
            # Once the greatest epoch is known, whatever comes after it would be refused unread.
            message.controller_epoch = min(message.controller_epoch, 1)
        version = random.randint(message.min_version, message.max_version)
        try:
            frame = frame_of(message, version)[4:]
        except (ProtocolError, ValueError):
            continue
        return mutated(random, frame) if random.random() < 0.2 else frame


def attack(victim, random, corpus):
    """Sends one such request; whether the broker answered."""
    with victim.connect() as peer:
        try:
            peer.send(with_length(random, a_frame(random, corpus)))
            peer.socket.settimeout(PATIENCE_S)
            return peer.response() is not None
        except OSError:
            return False  # closed while it was still being sent, or it waits for what a length promised


def test_the_broker_survives_whatever_a_controller_could_say(victim, serve):
    # pytest-randomly seeds this and prints the seed: `-p randomly -p "randomly_seed=..."` replays a failure.
    source = random.Random(random.getrandbits(64))
    corpus = requests()
    tried = answered = 0
    for _ in range(50):
        attack(victim, source, corpus)
    before = victim.memory_bytes()
    deadline = time.monotonic() + SECONDS
    # A slow machine takes longer to get as far; the test's own limit ends it.
    while time.monotonic() < deadline or tried <= TRIED_MIN or answered <= ANSWERED_MIN:
        tried += 1
        answered += attack(victim, source, corpus)
        if tried % 50 == 0:
            with victim.connect() as witness:
                assert witness.ask(ApiVersionsRequest()).error_code == 0
                assert witness.ask(MetadataRequest(topics=[])).cluster_id
    assert victim.alive()
    assert not victim.failures(), "\n".join(victim.failures())
    assert tried > TRIED_MIN
    assert answered > ANSWERED_MIN
    assert victim.memory_bytes() - before < GROWTH_MAX_BYTES
    outside = {path.name for path in victim.server.data_dir.parent.iterdir()}
    assert outside <= {"data", "data.log"}

    assert victim.server.stop() == 0
    again = serve(victim.server.data_dir, instead_of=victim.server)
    again.wait_until_ready()
    victim.server, victim.port = again, again.port


@pytest.mark.parametrize("partitions", [10_001, 0x7FFFFFFF])
def test_more_partitions_than_one_request_may_make_are_refused(victim, partitions):
    before = victim.memory_bytes()
    with victim.connect() as peer:
        wanted = CreatableTopic(name="vast", num_partitions=partitions, replication_factor=1)
        answer = peer.ask(CreateTopicsRequest(topics=[wanted]), 7).topics[0]

        assert (answer.error_code, answer.num_partitions) == (ErrorCode.POLICY_VIOLATION, -1)
        assert peer.ask(MetadataRequest(topics=[])).cluster_id
    assert victim.memory_bytes() - before < 8 << 20


def test_many_topics_at_once_are_counted_together(victim):
    with victim.connect() as peer:
        topics = [
            CreatableTopic(name=f"vast-{n}", num_partitions=6000, replication_factor=1) for n in range(2)
        ]
        answer = peer.ask(CreateTopicsRequest(topics=topics), 7)

        assert {each.error_code for each in answer.topics} == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.parametrize("name", ["a b", "../../up", "a/b", "..", ""])
def test_a_controller_makes_no_directory_of_a_name_that_no_topic_has(untouched, name):
    role = LeaderAndIsrPartitionState(leader=0, leader_epoch=1, isr=[0], replicas=[0], is_new=True)
    state = LeaderAndIsrTopicState(topic_name=name, topic_id=b"\x33" * 16, partition_states=[role])
    request = LeaderAndIsrRequest(controller_epoch=0x7FFFFFFF, topic_states=[state])
    before = set(untouched.server.data_dir.parent.rglob("*"))
    with untouched.connect() as peer:
        answer = peer.ask(request, 7)

        assert answer.topics[0].partition_errors[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert peer.produce("nowhere", batch(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    made = set(untouched.server.data_dir.parent.rglob("*")) - before
    assert not [path for path in made if path.is_dir()]


@pytest.mark.parametrize("name", ["\0", "", "/", "..", "a//b"])
def test_a_name_that_no_topic_has_cannot_be_deleted(untouched, name):
    with untouched.connect() as peer:
        answer = peer.ask(DeleteTopicsRequest(topic_names=[name]), 5)

        assert answer.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not untouched.failures(), "\n".join(untouched.failures())


def test_every_api_is_fuzzed_that_the_other_fuzzer_leaves_out():
    from test_fuzz_broker import LEFT_OUT

    assert {request.api for request in requests()} >= LEFT_OUT
    assert ApiKey.CONTROLLED_SHUTDOWN in LEFT_OUT
