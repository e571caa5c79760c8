"""The configuration of the group coordinator, read once from the broker's (``GroupCoordinatorConfig``)."""

from dataclasses import dataclass
from typing import Final

from barnabas.core.config import Config

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member that waits for its first assignment may be silent before it is removed."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Times in ms, sizes in bytes."""

    min_session_timeout_ms: int
    max_session_timeout_ms: int
    initial_rebalance_delay_ms: int
    max_size: int
    rebalance_protocols: frozenset[str]
    consumer_max_size: int
    consumer_assignors: tuple[str, ...]
    consumer_migration_policy: str
    offset_metadata_max_bytes: int
    offsets_retention_ms: int
    offsets_retention_check_interval_ms: int
    offsets_topic_partitions: int
    offsets_compression_codec: int
    offsets_commit_timeout_ms: int
    offsets_commit_required_acks: int

    @classmethod
    def of(cls, config: Config) -> "GroupSettings":
        """Out of a broker's configuration, whose table has checked each value."""
        return cls(
            min_session_timeout_ms=config["group.min.session.timeout.ms"],
            max_session_timeout_ms=config["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            max_size=config["group.max.size"],
            rebalance_protocols=frozenset(config["group.coordinator.rebalance.protocols"]),
            consumer_max_size=config["group.consumer.max.size"],
            consumer_assignors=tuple(config["group.consumer.assignors"]),
            consumer_migration_policy=config["group.consumer.migration.policy"].lower(),
            offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
            offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
            offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
            offsets_topic_partitions=config["offsets.topic.num.partitions"],
            offsets_compression_codec=config["offsets.topic.compression.codec"],
            offsets_commit_timeout_ms=config["offsets.commit.timeout.ms"],
            offsets_commit_required_acks=config["offsets.commit.required.acks"],
        )
