"""What a topic's configuration says to its log (``LogConfig``)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from barnabas.core.config import LONG_MAX
from barnabas.records.batch import TimestampType
from barnabas.records.compression import Codec

_SMALL_INT_MAX: Final = (1 << 62) - 1
_PRODUCER: Final = "producer"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Typed values of the topic keys that the log obeys; names are Kafka's with ``_`` for ``.``."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * 3600 * 1000
    max_message_bytes: int = 1_048_588
    file_delete_delay_ms: int = 60_000
    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    compression_type: str = _PRODUCER
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = LONG_MAX
    min_insync_replicas: int = 1
    validate_records: bool = False
    """``barnabas.validate.records``, a broker key: walk every record that a client sends."""
    takes_batches_as_they_are: bool = field(init=False, default=True)
    """Whether a batch can be judged by its header alone and needs no change; asked at every append."""
    uses_append_time: bool = field(init=False, default=False)
    flush_after: int = field(init=False, default=0)
    """``flush.messages``, at most what is no object in compiled code: it is asked for twice an append."""
    roll_ms: int = field(init=False, default=0)
    """``maxSegmentMs``: the age at which a segment is closed;
    a compacted one in time for ``max.compaction.lag.ms``.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "uses_append_time", self.message_timestamp_type == "LogAppendTime")
        changes = self.target_codec is not None or self.uses_append_time
        walks = self.is_compacted or self.validate_records or self.limits_timestamps
        object.__setattr__(self, "takes_batches_as_they_are", not (changes or walks))
        object.__setattr__(self, "flush_after", min(self.flush_messages, _SMALL_INT_MAX))
        lag_ms = self.max_compaction_lag_ms if self.is_compacted else LONG_MAX
        object.__setattr__(self, "roll_ms", min(self.segment_ms, lag_ms))

    @classmethod
    def from_values(cls, values: Mapping[str, Any], *, validate_records: bool = False) -> "LogConfig":
        """From typed values by Kafka's keys (``segment.bytes``); what is not there has Kafka's default."""
        known = {each.name for each in fields(cls) if each.init}
        given = {name.replace(".", "_"): value for name, value in values.items()}
        chosen = {name: value for name, value in given.items() if name in known and value is not None}
        policy = chosen.get("cleanup_policy")
        if policy is not None:
            chosen["cleanup_policy"] = tuple(policy.split(",") if isinstance(policy, str) else policy)
        return cls(**{**chosen, "validate_records": validate_records})

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner keeps the last record of each key; then every record needs one."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.uses_append_time else TimestampType.CREATE_TIME

    @property
    def limits_timestamps(self) -> bool:
        """Whether a record may be refused for being too old or too far ahead."""
        return (
            self.message_timestamp_before_max_ms != LONG_MAX
            or self.message_timestamp_after_max_ms != LONG_MAX
        )

    @property
    def target_codec(self) -> Codec | None:
        """What batches are compressed with on disk; None leaves that to the producer."""
        if self.compression_type == _PRODUCER:
            return None
        return Codec.NONE if self.compression_type == "uncompressed" else Codec.named(self.compression_type)

    def compression_level(self, codec: Codec) -> int | None:
        levels = {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }
        return levels.get(codec)
