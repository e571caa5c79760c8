"""What a controller tells brokers and leaders tell the controller, said by somebody who knows the epochs.

The controller of both sides is broker 0 in its first term; a broker epoch of -1 is one that the sender does
not know, which a broker lets pass.
"""

from collections.abc import Callable
from typing import Any, Final

from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
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
from parity.scenarios.offsets import offsets_at
from parity.world import World

TERM: Final = 1
INVENTED_ID: Final = b"\x22" * 16


def describe(world: World, what: str, *topics: str) -> None:
    """What clients are told of topics now."""
    wanted = [MetadataRequestTopic(name=topic) for topic in topics]
    world.ask(what, MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)


def _leader_and_isr(
    topic: str,
    *,
    topic_id: bytes = INVENTED_ID,
    controller: tuple[int, int] = (0, TERM),
    broker_epoch: int = -1,
    **state: Any,
) -> Callable[[int], LeaderAndIsrRequest]:
    given: dict[str, Any] = {
        "leader": 0,
        "leader_epoch": 0,
        "isr": [0],
        "replicas": [0],
        "partition_epoch": 0,
        "is_new": True,
    }

    def request(version: int) -> LeaderAndIsrRequest:
        made = LeaderAndIsrRequest(
            controller_id=controller[0], controller_epoch=controller[1], broker_epoch=broker_epoch
        )
        partition = LeaderAndIsrPartitionState(controller_epoch=controller[1], **(given | state))
        made.live_leaders = [LeaderAndIsrLiveLeader(broker_id=0, host_name="127.0.0.1", port=9)]
        if version < 2:
            partition.topic_name = topic
            made.ungrouped_partition_states = [partition]
        else:
            name = LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=[partition])
            made.topic_states = [name]
        return made

    return request


def leader_and_isr(world: World) -> None:
    """Partitions that this broker comes to lead, without any topic in the store."""
    for version in range(8):
        world.ask("lead", _leader_and_isr(f"led-{version}", topic_id=bytes([version + 1]) * 16), version)
    for version in (0, 4, 7):
        topic, topic_id = f"led-{version}", bytes([version + 1]) * 16
        states: dict[str, dict[str, Any]] = {
            "again": {},
            "next epoch": {"leader_epoch": 1, "partition_epoch": 1, "is_new": False},
            "epoch before": {"leader_epoch": 0, "is_new": False},
            "not mine": {"leader": 8, "leader_epoch": 2, "isr": [8], "replicas": [8]},
            "unknown leader": {"leader": 8, "leader_epoch": 2, "isr": [8], "replicas": [0, 8]},
            "no leader": {"leader": -1, "leader_epoch": 3},
            "negative partition": {"partition_index": -1},
        }
        for what, state in states.items():
            world.ask(what, _leader_and_isr(topic, topic_id=topic_id, **state), version)
        world.ask("bad name", _leader_and_isr("a+b", topic_id=b"\x33" * 16), version)
        world.ask("old controller", _leader_and_isr(topic, controller=(0, 0)), version)
        world.ask("nothing", _nothing_led, version)
    world.ask("another id", _leader_and_isr("led-7", topic_id=b"\x44" * 16, leader_epoch=9), 7)
    world.ask("no id", _leader_and_isr("led-7", topic_id=bytes(16), leader_epoch=9), 7)
    for epoch in (0, 1 << 60):
        world.ask(f"broker epoch {epoch}", _leader_and_isr("led-7", broker_epoch=epoch), 2, 7)
    world.ask("offset of a led partition", offsets_at("led-7", -1), 1, 9)


def _nothing_led(_version: int) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(controller_id=0, controller_epoch=TERM)


def _update(
    topic: str, *, controller: tuple[int, int] = (0, TERM), broker_epoch: int = -1, **state: Any
) -> Callable[[int], UpdateMetadataRequest]:
    given: dict[str, Any] = {"leader": 0, "leader_epoch": 4, "isr": [0], "replicas": [0, 8], "zk_version": 3}

    def request(version: int) -> UpdateMetadataRequest:
        made = UpdateMetadataRequest(
            controller_id=controller[0], controller_epoch=controller[1], broker_epoch=broker_epoch
        )
        partition = UpdateMetadataPartitionState(controller_epoch=controller[1], **(given | state))
        if version < 5:
            partition.topic_name = topic
            made.ungrouped_partition_states = [partition]
        else:
            made.topic_states = [
                UpdateMetadataTopicState(
                    topic_name=topic, topic_id=b"\x55" * 16, partition_states=[partition]
                )
            ]
        made.live_brokers = [_broker(0, 9, version), _broker(8, 10, version)]
        return made

    return request


def _broker(number: int, port: int, version: int) -> UpdateMetadataBroker:
    endpoint = UpdateMetadataEndpoint(host="127.0.0.1", port=port, listener="PLAINTEXT", security_protocol=0)
    made = UpdateMetadataBroker(id=number, rack=f"r{number}" if version >= 2 else None)
    if version == 0:
        made.v0_host, made.v0_port = "127.0.0.1", port
    else:
        made.endpoints = [endpoint]
    return made


def update_metadata(world: World) -> None:
    """Topics and brokers that clients hear of."""
    for version in range(9):
        topic = f"told-{version}"
        world.ask("told", _update(topic), version)
        describe(world, f"after {topic}", topic)
    for version in (0, 8):
        topic = f"told-{version}"
        world.ask("old controller", _update(topic, controller=(0, 0)), version)
        world.ask("no leader", _update(topic, leader=-1), version)
        describe(world, f"without a leader {version}", topic)
        world.ask("being deleted", _update(topic, leader=-2), version)
        describe(world, f"deleted {version}", topic)
    for epoch in (0, 1 << 60):
        world.ask(f"broker epoch {epoch}", _update("told-x", broker_epoch=epoch), 5, 8)


def stop_replica(world: World) -> None:
    """Replicas that stop, with and without their logs."""
    for version in range(5):
        topic, topic_id = f"stopped-{version}", bytes([version + 100]) * 16
        world.prepare(_leader_and_isr(topic, topic_id=topic_id, leader_epoch=5)(7), 7)
        world.ask("old controller", _stop(topic, term=0), version)
        world.ask("epoch before", _stop(topic, leader_epoch=3), version)
        world.ask("stop", _stop(topic, leader_epoch=5), version)
        world.ask("delete", _stop(topic, leader_epoch=6, delete=True), version)
        world.ask("delete again", _stop(topic, leader_epoch=6, delete=True), version)
        world.ask("unknown", _stop("stopped-nowhere", leader_epoch=6), version)
        world.ask("unknown to delete", _stop("stopped-nowhere", leader_epoch=6, delete=True), version)
        world.ask("partition negative", _stop(topic, partition=-1, delete=True), version)
        world.ask("nothing", StopReplicaRequest(controller_id=0, controller_epoch=TERM), version)
    for epoch in (0, 1 << 60):
        world.ask(f"broker epoch {epoch}", _stop("stopped-4", broker_epoch=epoch), 1, 4)


def _stop(
    topic: str,
    *,
    term: int = TERM,
    partition: int = 0,
    leader_epoch: int = -1,
    delete: bool = False,
    broker_epoch: int = -1,
) -> Callable[[int], StopReplicaRequest]:
    def request(version: int) -> StopReplicaRequest:
        made = StopReplicaRequest(controller_id=0, controller_epoch=term, broker_epoch=broker_epoch)
        if version < 3:
            made.delete_partitions = delete
        if version == 0:
            made.ungrouped_partitions = [StopReplicaPartitionV0(topic_name=topic, partition_index=partition)]
        elif version < 3:
            made.topics = [StopReplicaTopicV1(name=topic, partition_indexes=[partition])]
        else:
            state = StopReplicaPartitionState(
                partition_index=partition, leader_epoch=leader_epoch, delete_partition=delete
            )
            made.topic_states = [StopReplicaTopicState(topic_name=topic, partition_states=[state])]
        return made

    return request


def alter_partition(world: World) -> None:
    """Proposals of leaders that are not who they say."""
    world.create("altered")
    for what, (broker, epoch) in {
        "stale epoch": (0, 0),
        "unknown broker": (9, 0),
        "no epoch": (0, -1),
    }.items():
        for version in range(4):
            world.ask(what, _alter(world, broker, epoch), version)
    for version in (0, 3):
        world.ask("nothing", AlterPartitionRequest(broker_id=0, broker_epoch=0), version)


def _alter(world: World, broker: int, epoch: int) -> Callable[[int], AlterPartitionRequest]:
    def request(version: int) -> AlterPartitionRequest:
        partition = AlterPartitionRequestPartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
        if version < 3:
            partition.new_isr = [0]
        else:
            partition.new_isr_with_epochs = [BrokerState(broker_id=0, broker_epoch=epoch)]
        topic = AlterPartitionRequestTopicData(partitions=[partition])
        if version < 2:
            topic.topic_name = "altered"
        else:
            topic.topic_id = world.topic_id("altered")
        return AlterPartitionRequest(broker_id=broker, broker_epoch=epoch, topics=[topic])

    return request
