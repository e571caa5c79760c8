"""The few settings that the controller goes by, out of the broker's configuration."""

from dataclasses import dataclass

from barnabas.core.config import Config


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Named as in Kafka; the listener is the one that the controller reaches brokers on."""

    broker_id: int
    listener: str
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10

    @classmethod
    def of(cls, broker: Config, broker_id: int, listener: str) -> "ControllerConfig":
        """From the parsed broker configuration."""
        return cls(
            broker_id,
            listener,
            broker["delete.topic.enable"],
            broker["unclean.leader.election.enable"],
            broker["auto.leader.rebalance.enable"],
            broker["leader.imbalance.check.interval.seconds"],
            broker["leader.imbalance.per.broker.percentage"],
        )
