"""What the store says of partitions: the last word where a controller's requests say nothing."""

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import MetadataStore, NoNodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.pending import Steps, steps


class Decision(NamedTuple):
    """Where a partition is, by the last controller that wrote about it."""

    topic_id: Uuid | None
    replicas: tuple[int, ...]
    """All of them: those that a reassignment adds and removes, too."""
    leader_epoch: int
    controller_epoch: int


@steps
def read_decisions(
    store: MetadataStore, partitions: Sequence[TopicPartition]
) -> Steps[dict[TopicPartition, Decision]]:
    """The decision about each partition that exists, is readable, and whose topic is not being deleted."""
    decisions: dict[TopicPartition, Decision] = {}
    for tp in partitions:
        path, state_path = znodes.topic_path(tp.topic), znodes.partition_state_path(tp)
        if (yield store.exists(znodes.delete_topic_path(tp.topic))) is not None:
            continue
        try:
            topic_data, _ = yield store.get(path)
            state_data, stat = yield store.get(state_path)
        except NoNodeError:
            continue
        topic = readable(store, path, znodes.decode_topic, topic_data)
        state = readable(store, state_path, znodes.decode_partition_state, state_data, stat)
        if topic is None or state is None or tp.partition not in topic.partitions:
            continue
        decisions[tp] = Decision(
            topic.topic_id,
            topic.partitions[tp.partition].replicas,
            state.leader_and_isr.leader_epoch,
            state.controller_epoch,
        )
    return decisions
