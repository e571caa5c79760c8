"""The loggers of the broker and their levels, which clients may read and change while it runs (KIP-412, ``Log4jController``).

A logger goes by the name that its lines have, ``barnabas.log.cleaner``; where Kafka has one for the same part it
goes by that as well, ``kafka.log.LogCleaner``. Both names are one logger. The names are ordered by their dots: what is
set for ``barnabas.log`` holds for ``barnabas.log.cleaner`` too, unless that has a level of its own. Levels go by
Kafka's names. A level that is set holds until the broker ends; it is written nowhere.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from barnabas.core.eventlog import KAFKA_LOGGERS

ROOT: Final = "root"

LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "DEBUG": logging.DEBUG,
        "ERROR": logging.ERROR,
        "FATAL": logging.CRITICAL,
        "INFO": logging.INFO,
        "TRACE": logging.DEBUG // 2,
        "WARN": logging.WARNING,
    }
)
"""What a level is called and how loud it is (``LogLevelConfig.VALID_LOG_LEVELS``), in the order of Kafka's messages."""

NAMES_OF_KAFKA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kafka": "barnabas",
        "kafka.cluster.Partition": "barnabas.replica.partition",
        "kafka.controller": "barnabas.cluster.controller",
        "kafka.controller.KafkaController": "barnabas.cluster.controller",
        "kafka.controller.TopicDeletionManager": "barnabas.cluster.controller.deletion",
        "kafka.controller.ZkPartitionStateMachine": "barnabas.cluster.controller.partitions",
        "kafka.controller.ZkReplicaStateMachine": "barnabas.cluster.controller.replicas",
        "kafka.coordinator.group.GroupCoordinator": "barnabas.coordinator.classic",
        "kafka.coordinator.group.GroupMetadataManager": "barnabas.coordinator",
        "kafka.log.LogCleaner": "barnabas.log.cleaner",
        "kafka.log.LogManager": "barnabas.log.manager",
        "kafka.log.UnifiedLog": "barnabas.log",
        "kafka.network.SocketServer": "barnabas.network",
        "kafka.server.ConfigAdminManager": "barnabas.broker.alter_configs",
        "kafka.server.DefaultAutoTopicCreationManager": "barnabas.broker.auto_topics",
        "kafka.server.KafkaApis": "barnabas.broker.dispatch",
        "kafka.server.KafkaConfig": "barnabas.core.config",
        "kafka.server.KafkaServer": "barnabas.node",
        "kafka.server.NodeToControllerRequestThread": "barnabas.node.to_controller",
        "kafka.server.ReplicaAlterLogDirsManager": "barnabas.replica.alter_log_dirs",
        "kafka.server.ReplicaFetcherManager": "barnabas.replica.fetcher",
        "kafka.server.ReplicaManager": "barnabas.replica",
        "kafka.server.metadata.ZkMetadataCache": "barnabas.cluster.metadata_cache",
        "kafka.zk.AdminZkClient": "barnabas.cluster.topics",
        "kafka.zookeeper.ZooKeeperClient": "barnabas.cluster.zookeeper",
        "org.apache.kafka.clients.NetworkClient": "barnabas.network.client",
        "org.apache.kafka.storage.internals.log.ProducerStateManager": "barnabas.log.snapshots",
        **{name: name for name in KAFKA_LOGGERS},
    }
)
"""The logger of ours that has the lines for which Kafka has the named one."""


def levels() -> dict[str, str]:
    """All loggers that there are, by each of their names, with the level that holds for them."""
    found = {ROOT: _level_of(logging.getLogger())}
    for name, logger in logging.root.manager.loggerDict.items():
        if _is_ours(name) and isinstance(logger, logging.Logger):
            found[name] = _level_of(logger)
    return found | {name: _level_of(logging.getLogger(ours)) for name, ours in NAMES_OF_KAFKA.items()}


def exists(name: str) -> bool:
    """Whether there is a logger of this name."""
    known = isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)
    return name == ROOT or name in NAMES_OF_KAFKA or (known and _is_ours(name))


def set_level(name: str, level: str) -> None:
    """Gives a logger a level of its own."""
    _logger(name).setLevel(LEVELS[level])


def unset_level(name: str) -> None:
    """Takes the level of its own from a logger: that of the next one above holds."""
    _logger(name).setLevel(logging.NOTSET)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "barnabas"


def _logger(name: str) -> logging.Logger:
    # A name that was not checked must not make a logger.
    assert exists(name), name
    return logging.getLogger() if name == ROOT else logging.getLogger(NAMES_OF_KAFKA.get(name, name))


def _level_of(logger: logging.Logger) -> str:
    """The name of the level that holds, or of the next lower one that Kafka has."""
    level = logger.getEffectiveLevel()
    return max((number, name) for name, number in LEVELS.items() if number <= max(level, LEVELS["TRACE"]))[1]
