"""The scenarios, in the order in which they run: those that take a broker apart come last."""

from collections.abc import Callable
from typing import Final

from parity.scenarios import (
    cluster,
    configs,
    control,
    fetch,
    frames,
    golden,
    offsets,
    produce,
    producer_ids,
    shutdown,
    topics,
)
from parity.world import World

SCENARIOS: Final[dict[str, Callable[[World], None]]] = {
    "golden frames": golden.golden_frames,
    "frames": frames.bad_frames,
    "api versions": cluster.api_versions,
    "describe cluster": cluster.describe_cluster,
    "metadata": cluster.metadata,
    "auto creation": cluster.auto_creation,
    "create topics": topics.create_topics,
    "delete topics": topics.delete_topics,
    "absurd topics": topics.absurd_topics,
    "produce": produce.produce,
    "bad batches": produce.bad_batches,
    "idempotent produce": produce.idempotent,
    "compacted topic": produce.compacted,
    "append time": produce.append_time,
    "fetch": fetch.fetch,
    "fetch sessions": fetch.sessions,
    "fetch as follower": fetch.as_follower,
    "list offsets": offsets.list_offsets,
    "leader epochs": offsets.leader_epochs,
    "describe configs": configs.describe_configs,
    "producer ids": producer_ids.init_producer_id,
    "allocate producer ids": producer_ids.allocate_producer_ids,
    "alter partition": control.alter_partition,
    "leader and isr": control.leader_and_isr,
    "update metadata": control.update_metadata,
    "stop replica": control.stop_replica,
    "controlled shutdown": shutdown.controlled_shutdown,
}
