"""Log starts that move up, and those that cannot."""

from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from parity.scenarios.batches import batch
from parity.world import World


def delete_records(world: World) -> None:
    """Offsets that are there and that are not, and topics that refuse."""
    world.create("deleted")
    world.create("deleted-never", **{"cleanup.policy": "compact"})
    world.create("deleted-both", **{"cleanup.policy": "compact,delete"})
    world.append("deleted", *(batch(b"%d" % number) for number in range(6)))
    for offset in (0, 2, 1):
        world.ask(f"to {offset}", _delete("deleted", offset))
    world.ask("begins", _earliest("deleted"), 7)
    for offset in (7, -2, -(1 << 63), (1 << 63) - 1):
        world.ask(f"to {offset}", _delete("deleted", offset))
    world.ask("without time", _delete("deleted", 3, timeout_ms=0))
    world.ask("less than no time", _delete("deleted", 3, timeout_ms=-1))
    world.ask("everything", _delete("deleted", -1))
    world.ask("begins at its end", _earliest("deleted"), 7)
    for topic in ("deleted-never", "deleted-both", "deleted-nowhere", "__consumer_offsets", "a b", ""):
        world.ask(f"of {topic!r}", _delete(topic, -1))
    world.ask("no partition of it", _delete("deleted", 0, 9))
    world.ask("twice", _delete("deleted", 0, 0, 0))
    world.ask("nothing", DeleteRecordsRequest(timeout_ms=1000))
    world.ask("no partitions", DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="deleted")]))


def _delete(topic: str, offset: int, *partitions: int, timeout_ms: int = 1000) -> DeleteRecordsRequest:
    named = [DeleteRecordsPartition(partition_index=each, offset=offset) for each in partitions or (0,)]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=named)], timeout_ms=timeout_ms
    )


def _earliest(topic: str) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-2)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
