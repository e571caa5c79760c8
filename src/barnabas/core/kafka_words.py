"""Our events in Kafka's own words, with the names of its loggers and the layout of its ``log4j.properties``.

People search broker logs for lines that Kafka has written for ten years. ``barnabas.log.names=kafka`` gives
them: an event that has a line in Kafka gets that line, made of the event's fields; every other keeps its own
form, under the logger that Kafka's code for the same thing has. ``docs/logs.md`` is written from these
tables.
"""

import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from barnabas.core.eventlog import KAFKA_LOGGERS, EventFormatter, shown

LOGGERS: Final[Mapping[str, str]] = {
    "admin": "org.apache.kafka.clients.admin.KafkaAdminClient",
    "broker": "kafka.server.KafkaApis",
    "broker.dispatch": "kafka.server.KafkaApis",
    "broker.producer_ids": "kafka.coordinator.transaction.RPCProducerIdManager",
    "client": "org.apache.kafka.clients.NetworkClient",
    "cluster.configs": "kafka.server.ZkConfigManager",
    "cluster.controller": "kafka.controller.KafkaController",
    "cluster.controller.deletion": "kafka.controller.TopicDeletionManager",
    "cluster.controller.partitions": "kafka.controller.ZkPartitionStateMachine",
    "cluster.controller.replicas": "kafka.controller.ZkReplicaStateMachine",
    "cluster.features": "kafka.server.FinalizedFeatureChangeListener",
    "cluster.metadata_cache": "kafka.server.metadata.ZkMetadataCache",
    "cluster.registration": "kafka.zk.KafkaZkClient",
    "cluster.sqlite": "kafka.zookeeper.ZooKeeperClient",
    "cluster.topics": "kafka.zk.AdminZkClient",
    "cluster.zookeeper": "kafka.zookeeper.ZooKeeperClient",
    "coordinator": "kafka.coordinator.group.GroupCoordinator",
    "coordinator.decoding": "kafka.coordinator.group.GroupMetadataManager",
    "coordinator.loading": "kafka.coordinator.group.GroupMetadataManager",
    "coordinator.offsets": "kafka.coordinator.group.GroupMetadataManager",
    "coordinator.replay": "kafka.coordinator.group.GroupMetadataManager",
    "core": "kafka.server.KafkaConfig",
    "core.dynamic_broker_config": "kafka.server.DynamicBrokerConfig",
    "log": "kafka.log.UnifiedLog",
    "log.cleaner": "kafka.log.LogCleaner",
    "log.future_logs": "kafka.log.LogManager",
    "log.manager": "kafka.log.LogManager",
    "network": "kafka.network.SocketServer",
    "network.client": "org.apache.kafka.clients.NetworkClient",
    "node": "kafka.server.KafkaServer",
    "node.channels": "kafka.controller.RequestSendThread",
    "node.to_controller": "kafka.server.NodeToControllerRequestThread",
    "replica": "kafka.server.ReplicaManager",
    "replica.alter_log_dirs": "kafka.server.ReplicaAlterLogDirsManager",
    "replica.alter_partition": "kafka.server.DefaultAlterPartitionManager",
    "replica.fetcher": "kafka.server.ReplicaFetcherThread",
    "replica.partition": "kafka.cluster.Partition",
    "serve": "kafka.server.KafkaServer",
}
"""Our parts that log, and Kafka's logger for the same; a part without a row has its parent's."""

_CONTROLLER: Final = "[Controller id={me}] "
_OFFICE: Final = "[Controller id={controller} epoch={controller_epoch}] "
_BROKER: Final = "[Broker id={broker}] "
_GROUPS: Final = "[GroupCoordinator {me}]: "
_DELETION: Final = "[Topic Deletion Manager {me}] "
_LOADING: Final = "[GroupMetadataManager brokerId={me}] "
_FETCHER: Final = "[ReplicaFetcher replicaId={me}, leaderId={leader}] "

WORDS: Final[Mapping[str, str]] = {
    # The controller
    "elected": _CONTROLLER + "{broker} successfully elected as the controller. Epoch incremented to {epoch}",
    "resigned": _CONTROLLER + "Resigned",
    "controller_ready": _CONTROLLER + "Ready to serve as the new controller with epoch {epoch}",
    "controller_is_elected": _CONTROLLER
    + "Broker {controller} has been elected as the controller, so stopping the"
    " election process.",
    "broker_change": _CONTROLLER
    + "Newly added brokers: {new}, deleted brokers: {dead}, bounced brokers: {bounced}, all live"
    " brokers: {live}",
    "shutting_down": _CONTROLLER + "Shutting down broker {broker}",
    "topic_change": _CONTROLLER + "New topics: [{new}], deleted topics: [{deleted}]",
    "topic_deleted": _DELETION + "Deletion of topic {topic} successfully completed",
    "deletion_halted": _DELETION + "Halted deletion of topics {topics} due to {reason}",
    "deletion_of_unknown_topics": _CONTROLLER + "Ignoring request to delete non-existing topics {topics}",
    "preferred_election": _CONTROLLER
    + "Starting replica leader election (PREFERRED) for partitions {results}",
    "channel.retry": "[RequestSendThread controllerId={me}] "
    "Controller {me}'s connection to broker {broker} was unsuccessful: {reason}",
    # What the controller sends, and what brokers make of it
    "leader_and_isr.sent": _OFFICE
    + "Sending LeaderAndIsr request to broker {to} with {leaders} become-leader and {followers}"
    " become-follower partitions",
    "leader_and_isr.sent.partition": _OFFICE
    + "Sending LeaderAndIsr request {state} to broker {to} for partition {partition}",
    "update_metadata.sent": _OFFICE
    + "Sending UpdateMetadata request to brokers {to} for {partitions} partitions",
    "update_metadata.sent.partition": _OFFICE
    + "Sending UpdateMetadata request {state} to brokers {to} for partition"
    " {partition}",
    "stop_replica.sent": _OFFICE + "Sending StopReplica request for {partitions} replicas to broker {to}",
    "stop_replica.sent.partition": _OFFICE
    + "Sending StopReplica request {state} to broker {to} for partition {partition}",
    "leader_and_isr.handled": _BROKER
    + "Handling LeaderAndIsr request from controller {controller} for {partitions}"
    " partitions",
    "leader_and_isr.handled.partition": _BROKER
    + "Received LeaderAndIsr request {state} from controller {controller} epoch"
    " {controller_epoch} for partition {partition}",
    "update_metadata.handled": _BROKER
    + "Add {topics} topics and deleted {deleted_partitions} partitions from metadata cache"
    " in response to UpdateMetadata request sent by controller {controller} epoch {controller_epoch}",
    "stop_replica.handled": _BROKER
    + "Handling StopReplica request from controller {controller} for {partitions} partitions",
    "stop_replica.handled.partition": _BROKER
    + "Received StopReplica request {state} from controller {controller} epoch"
    " {controller_epoch} for partition {partition}",
    # Replicas and logs
    "partition.leads": "[Partition {partition} broker={me}] "
    "Leader starts at leader epoch {epoch} from offset {offset}",
    "partition.isr_shrinks": "[Partition {partition} broker={me}] "
    "Shrinking ISR: out of sync replica IDs {behind}",
    "fetcher.started": "[{fetcher}]: Starting",
    "fetcher.ended": "[{fetcher}]: Shutdown completed",
    "replica.truncated": "[ReplicaFetcher replicaId={me}] "
    "Truncating partition {partition} to offset {offset}, the end was {end}",
    "replica.not_copied": _FETCHER + "Error for partition {partition}: {reason}",
    "replica.fenced": _FETCHER
    + "Partition {partition} has an older epoch ({epoch}) than the current leader. Will await the new"
    " LeaderAndIsr state before resuming fetching.",
    "logs.loading": "Loading {logs} logs from log dir {path} (clean shutdown: {clean})",
    "logs.loaded": "Loaded {logs} logs in {ms}ms",
    "log.recovering": "[LogLoader partition={partition}] Recovering {segments} unflushed segments",
    "log.moved": "Log for partition {partition} was moved from {source} to {target}",
    "directory.offline": "Stopping serving logs in dir {path}: {error}",
    "broker_registered": "Registered broker {broker} at path /brokers/ids/{broker}, "
    "czxid (broker epoch): {epoch}",
    # The coordinator
    "startup.complete": _GROUPS + "Startup complete.",
    "shutdown.complete": _GROUPS + "Shutdown complete.",
    "coordinator.elected": _GROUPS
    + "Elected as the group coordinator for partition {partition} in epoch {epoch}",
    "coordinator.resigned": _GROUPS
    + "Resigned as the group coordinator for partition {partition} in epoch {epoch}",
    "load.finished": _LOADING
    + "Finished loading offsets and group metadata from {partition} in {took_ms} milliseconds for epoch"
    " {epoch}",
    "unload.finished": _LOADING + "Finished unloading {partition}. Removed {groups} cached groups.",
    "classic.rebalance_begins": _GROUPS
    + "Preparing to rebalance group {group} in state PreparingRebalance with old generation"
    " {generation} (reason: {reason})",
    "classic.generation_begins": _GROUPS
    + "Stabilized group {group} generation {generation} with {members} members",
    "classic.group_is_empty": _GROUPS + "Group {group} with generation {generation} is now empty",
    "classic.member_failed": _GROUPS
    + "Member {member} in group {group} has failed, removing it from the group",
    "classic.static_member_returns": _GROUPS
    + "Static member which joins during Stable stage and doesn't affect selectProtocol"
    " will not trigger rebalance: {instance} of group {group} is now {now}",
    "group.deleted": _LOADING + "Group {group} transitioned to Dead",
    "offsets.removed": _LOADING + "Removed {offsets} expired offsets of {partition}",
}
"""The event, and Kafka's line for it; ``{me}`` is this broker, every other name a field of the event."""

_LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}
"""The levels that Java calls otherwise."""
_OURS: Final = "barnabas."


def kafka_logger(name: str) -> str:
    """The logger of Kafka's for one of ours; what Kafka has none for keeps its name."""
    part = name.removeprefix(_OURS)
    while part and part not in LOGGERS:
        part = part.rpartition(".")[0]
    return LOGGERS[part] if part else name


def our_loggers(name: str) -> list[str]:
    """Our loggers for one of Kafka's; none for a name that Kafka does not have or nothing here matches."""
    if name in KAFKA_LOGGERS:
        return [name]
    return [_OURS + part for part, logger in LOGGERS.items() if logger == name]


class KafkaFormatter(EventFormatter):
    """Lines as Kafka's ``log4j.properties`` lays them out: ``[time] LEVEL text (logger)``."""

    def __init__(self, broker_id: int) -> None:
        super().__init__("[%(asctime)s] %(kafka_level)s %(message)s (%(kafka_name)s)")
        self._broker_id = broker_id

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback below it where there is one."""
        record.kafka_level = _LEVELS.get(record.levelname, record.levelname)
        record.kafka_name = kafka_logger(record.name)
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """The event in Kafka's words where it has some."""
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        words = WORDS.get(getattr(record, "event", ""))
        if words is not None:
            texts = {name: _text(value) for name, value in fields.items()}
            record.message = words.format(me=self._broker_id, **texts)
        return super().formatMessage(record)


def _text(value: Any) -> str:
    """A field inside a line of Kafka's: several values stand side by side with commas."""
    return (
        ",".join(map(shown, value))
        if isinstance(value, Sequence | AbstractSet) and not isinstance(value, str)
        else shown(value)
    )
