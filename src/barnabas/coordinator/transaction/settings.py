"""The configuration of the transaction coordinator, read once from the broker's (``TransactionConfig``)."""

from dataclasses import dataclass

from barnabas.core.config import Config


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Times in ms."""

    max_timeout_ms: int
    id_expiration_ms: int
    abort_timed_out_interval_ms: int
    remove_expired_interval_ms: int
    request_timeout_ms: int
    state_topic_partitions: int

    @classmethod
    def of(cls, config: Config) -> "TransactionSettings":
        return cls(
            max_timeout_ms=config["transaction.max.timeout.ms"],
            id_expiration_ms=config["transactional.id.expiration.ms"],
            abort_timed_out_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            remove_expired_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
            request_timeout_ms=config["request.timeout.ms"],
            state_topic_partitions=config["transaction.state.log.num.partitions"],
        )
