"""`MemberSettings`: what a consumer's configuration says about its group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from barnabas.core.config import Config, Source
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError

PROTOCOL_TYPE: Final = "consumer"
_NO_GROUP: Final = (
    "To use the group management or offset commit APIs, you must provide a valid group.id in the consumer"
    " configuration."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Times in milliseconds."""

    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    """max.poll.interval.ms: both how long the coordinator waits for members and how long one may not poll."""
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    auto_commit_interval_ms: int | None
    """None where offsets are committed by the caller alone."""
    rack: str | None
    server_assignor: str | None
    """How the coordinator is to divide partitions (protocol ``consumer``); None leaves it to it."""
    interceptors: Sequence[Any] = ()
    """Those of them that have ``on_commit`` hear of what is committed."""

    @classmethod
    def of(cls, config: Config) -> Self | None:
        """The settings, None without a group. Raises ConfigError."""
        automatic = config["enable.auto.commit"]
        if config["group.id"] is None:
            if automatic and config.source("enable.auto.commit") is not Source.DEFAULT:
                raise ConfigError(
                    "enable.auto.commit cannot be set to true when default group id (null) is used."
                )
            return None
        return cls(
            group_id=config["group.id"],
            group_instance_id=config["group.instance.id"],
            session_timeout_ms=config["session.timeout.ms"],
            heartbeat_interval_ms=_heartbeat_interval(config),
            rebalance_timeout_ms=config["max.poll.interval.ms"],
            request_timeout_ms=config["request.timeout.ms"],
            retry_backoff_ms=config["retry.backoff.ms"],
            retry_backoff_max_ms=config["retry.backoff.max.ms"],
            auto_commit_interval_ms=config["auto.commit.interval.ms"] if automatic else None,
            rack=config["client.rack"] or None,
            server_assignor=config["group.remote.assignor"],
            interceptors=config.get("interceptors") or (),
        )


def _heartbeat_interval(config: Config) -> int:
    interval: int = config["heartbeat.interval.ms"]
    if interval >= config["session.timeout.ms"]:
        raise ConfigError(
            f"Invalid value {interval} for configuration heartbeat.interval.ms: it must be below"
            f" session.timeout.ms, which is {config['session.timeout.ms']}"
        )
    return interval


def no_group() -> KafkaError:
    """What a consumer without a group says when it is asked to act as a member."""
    return KafkaError(ErrorCode.INVALID_GROUP_ID, _NO_GROUP)
