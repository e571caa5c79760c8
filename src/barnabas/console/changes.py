"""What has changed between two looks at a cluster: its controller, brokers, topics, leaders, in-sync
replicas, groups, configurations.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas.admin import ClusterDescription, GroupDescription, TopicDescription
from barnabas.console.reading import Observation
from barnabas.console.snapshot import ClusterChange, Entries

KEPT: Final = 2_000
"""How many changes are remembered; the oldest go first."""


def of_cluster(old: ClusterDescription, new: ClusterDescription, now_ms: int) -> Iterator[ClusterChange]:
    """Another controller, brokers that came or went."""
    before, after = _controller(old), _controller(new)
    if before != after:
        yield ClusterChange(now_ms, "controller", old.cluster_id, before, after)
    olds, news = ({one.node_id: one for one in each.brokers} for each in (old, new))
    for broker in sorted(olds.keys() ^ news.keys()):
        before, after = (f"{'in' if broker in each else 'not in'} the cluster" for each in (olds, news))
        yield ClusterChange(now_ms, "broker", f"broker {broker}", before, after)


def _controller(cluster: ClusterDescription) -> str:
    return "none" if cluster.controller is None else f"broker {cluster.controller.node_id}"


def of_topics(
    old: Mapping[str, TopicDescription], new: Mapping[str, TopicDescription], now_ms: int
) -> Iterator[ClusterChange]:
    """Topics that came or went, leaders and in-sync replicas."""
    for name in sorted(old.keys() ^ new.keys()):
        before, after = ("there" if name in each else "not there" for each in (old, new))
        yield ClusterChange(now_ms, "topic", name, before, after)
    for name, topic in new.items():
        earlier = old.get(name)
        if earlier is None or earlier.topic_id != topic.topic_id:
            continue
        olds = {one.partition: one for one in earlier.partitions}
        for one in topic.partitions:
            was = olds.get(one.partition)
            if was is None:
                yield ClusterChange(now_ms, "topic", f"{name}-{one.partition}", "not there", "there")
                continue
            if (was.leader, was.leader_epoch) != (one.leader, one.leader_epoch):
                before, after = (
                    f"{each.leader if each.leader >= 0 else 'none'}, epoch {each.leader_epoch}"
                    for each in (was, one)
                )
                yield ClusterChange(now_ms, "leader", f"{name}-{one.partition}", before, after)
            if set(was.isr) != set(one.isr):
                before, after = (",".join(map(str, sorted(each.isr))) or "none" for each in (was, one))
                yield ClusterChange(now_ms, "isr", f"{name}-{one.partition}", before, after)


def of_groups(
    old: Mapping[str, Observation[GroupDescription]],
    new: Mapping[str, Observation[GroupDescription]],
    now_ms: int,
) -> Iterator[ClusterChange]:
    """Groups whose state or number of members is another one; those that came or went."""
    for name, reading in new.items():
        was = old.get(name)
        if reading is was or reading.value is None:
            continue
        after = _state(reading.value)
        before = "not there" if was is None or was.value is None else _state(was.value)
        if before != after:
            yield ClusterChange(now_ms, "group", name, before, after)
    for name, was in old.items():
        if name not in new and was.value is not None:
            yield ClusterChange(now_ms, "group", name, _state(was.value), "not there")


def _state(group: GroupDescription) -> str:
    return f"{group.state}, {len(group.members)} members"


def of_configs(
    what: str, old: Mapping[Any, Observation[Entries]], new: Mapping[Any, Observation[Entries]], now_ms: int
) -> Iterator[ClusterChange]:
    """Keys of topics or brokers that have another value; of sensitive ones nothing is ever known."""
    for name, reading in new.items():
        was = old.get(name)
        if reading is was or was is None or was.value is None or reading.value is None:
            continue
        for key in sorted(was.value.keys() | reading.value.keys()):
            before, after = (
                "none" if (one := each.get(key)) is None else str(one.value)
                for each in (was.value, reading.value)
            )
            if before != after:
                yield ClusterChange(now_ms, "config", f"{what} {name}: {key}", before, after)
