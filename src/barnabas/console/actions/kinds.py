"""The table of what can be done."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from barnabas.console.actions import groups, partitions, records, security, topics, transactions
from barnabas.console.actions.plans import Planned


class ActionKind(NamedTuple):
    """What can be done: the parameters are fields of a form and of a call's body."""

    title: str
    parameters: type[Any]
    plan: Callable[..., Awaitable[Planned]]


KINDS: Final = {
    "create-topic": ActionKind("Create a topic", topics.CreateTopic, topics.create_topic),
    "expand-topic": ActionKind("Add partitions", topics.ExpandTopic, topics.expand_topic),
    "alter-topic": ActionKind("Change a key of a topic", topics.AlterTopic, topics.alter_topic),
    "alter-broker": ActionKind("Change a key of a broker", topics.AlterBroker, topics.alter_broker),
    "alter-brokers": ActionKind("Change a key of all brokers", topics.AlterBrokers, topics.alter_brokers),
    "truncate-topic": ActionKind("Delete all records of a topic", topics.OfTopic, topics.truncate_topic),
    "delete-topic": ActionKind("Delete a topic", topics.OfTopic, topics.delete_topic),
    "elect-leaders": ActionKind("Elect preferred leaders", partitions.ElectLeaders, partitions.elect_leaders),
    "reassign": ActionKind("Reassign a topic's partitions", partitions.Reassign, partitions.reassign),
    "replication-factor": ActionKind(
        "Change the replication factor", partitions.ReplicationFactor, partitions.replication_factor
    ),
    "move-log-dir": ActionKind(
        "Move a replica to another log directory", partitions.MoveLogDir, partitions.move_log_dir
    ),
    "cancel-reassignment": ActionKind(
        "Cancel a reassignment", partitions.CancelReassignment, partitions.cancel_reassignment
    ),
    "reset-offsets": ActionKind("Reset a group's offsets", groups.ResetOffsets, groups.reset_offsets),
    "set-offset": ActionKind("Set a group's offset in a partition", groups.SetOffset, groups.set_offset),
    "copy-offsets": ActionKind("Copy a group's offsets", groups.CopyOffsets, groups.copy_offsets),
    "restore-offsets": ActionKind(
        "Put a group's offsets back", groups.RestoreOffsets, groups.restore_offsets
    ),
    "delete-offsets": ActionKind("Delete a group's offsets", groups.DeleteOffsets, groups.delete_offsets),
    "delete-group": ActionKind("Delete a group", groups.OfGroup, groups.delete_group),
    "abort-hanging": ActionKind(
        "Abort a hanging transaction", transactions.AbortHanging, transactions.abort_hanging
    ),
    "fence-producer": ActionKind(
        "Fence the producers of a transactional id", transactions.FenceProducer, transactions.fence_producer
    ),
    "set-user": ActionKind("Set a user's password", security.SetUser, security.set_user),
    "delete-user": ActionKind("Delete a user's credential", security.DeleteUser, security.delete_user),
    "add-acl": ActionKind("Add an access rule", security.Acl, security.add_acl),
    "delete-acl": ActionKind("Delete an access rule", security.Acl, security.delete_acl),
    "set-quota": ActionKind("Set a quota", security.SetQuota, security.set_quota),
    "produce-record": ActionKind("Produce a record", records.ProduceRecord, records.produce_record),
    "expire-token": ActionKind("End a delegation token", security.ExpireToken, security.expire_token),
}
