"""A big partition of offsets, loaded with a real child process from a real disk."""

import asyncio
import random

import pytest

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.offsets.group_offsets import CommittedOffset
from barnabas.coordinator.offsets.records import commit_record
from barnabas.coordinator.runtime.loading import IN_PLACE_BYTES_MAX, Loader
from barnabas.core.broker_config import broker_config
from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.core.offload import InPlace
from barnabas.log.config import LogConfig
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.manager import LogManager
from barnabas.log.producers import AppendOrigin
from barnabas.network.clock import LoopClock
from barnabas.node.broker_node import wait
from barnabas.node.coordinators import group_coordinator
from barnabas.node.offload import ProcessOffload
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.listeners import Listeners

GROUPS, EACH = 100, 100
TP = TopicPartition(GROUP_METADATA_TOPIC, 0)


class Hosted:
    """The one partition that this broker leads."""

    def __init__(self, log):
        self.leader_log = log
        self.listeners = Listeners()
        self.appender = None  # nothing is written

    def partition(self, tp):
        return self


def write(log):
    for group in range(GROUPS):
        records = []
        for partition in range(EACH):
            commit = CommittedOffset(group * EACH + partition, 1, "note", 1_700_000_000_000)
            record = commit_record(f"group-{group}", TopicPartition("orders", partition), commit)
            records.append(Record(partition, 1_700_000_000_000, *record.encode()))
        log.append(bytearray(build_batch(records)), 0, 0, origin=AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("buffer_bytes", [100_000, 5_242_880])
def test_everything_is_there_again(tmp_path, buffer_bytes):
    asyncio.run(load(str(tmp_path), buffer_bytes))


async def load(folder, buffer_bytes):
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    config = LogConfig(segment_bytes=200_000, cleanup_policy=("compact",))
    logs = LogManager(
        [folder], filesystem=OsFilesystem(), clock=clock, offload=InPlace(), log_config=lambda _: config
    )
    await wait(logs.start(broker_id=1, cluster_id="c"))
    log = logs.get_or_create(TP)
    write(log)
    assert log.size > IN_PLACE_BYTES_MAX
    offload = ProcessOffload(loop)
    broker = broker_config({"offsets.topic.num.partitions": "1"})
    coordinator = group_coordinator(
        broker,
        GroupConfigManager(broker, {}),
        clock,
        random.Random(1),
        replicas=Hosted(log),
        metadata=MetadataCache(1),
        loader=Loader(clock, offload, OsFilesystem(), buffer_bytes=buffer_bytes, settle=lambda: None),
    )
    try:
        coordinator.startup(1)
        coordinator.elected(0, 0)
        while coordinator.loading:  # noqa: ASYNC110 - the coordinator knows of no event loop
            await asyncio.sleep(0.005)
        for group in range(GROUPS):
            name = f"group-{group}"
            found = coordinator.fetch_offsets(
                name,
                coordinator.committed_partitions(name),
                member_id=None,
                member_epoch=-1,
                require_stable=True,
            )
            assert {tp.partition: commit.offset for tp, commit in found.items()} == {
                partition: group * EACH + partition for partition in range(EACH)
            }
    finally:
        coordinator.shutdown()
        offload.close()
        logs.shutdown(clean=True)
