"""The table of what can be done."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from barnabas.console.actions import groups, partitions, topics
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
    "truncate-topic": ActionKind("Delete all records of a topic", topics.OfTopic, topics.truncate_topic),
    "delete-topic": ActionKind("Delete a topic", topics.OfTopic, topics.delete_topic),
    "elect-leaders": ActionKind("Elect preferred leaders", partitions.ElectLeaders, partitions.elect_leaders),
    "reassign": ActionKind("Reassign a topic's partitions", partitions.Reassign, partitions.reassign),
    "cancel-reassignment": ActionKind(
        "Cancel a reassignment", partitions.CancelReassignment, partitions.cancel_reassignment
    ),
    "reset-offsets": ActionKind("Reset a group's offsets", groups.ResetOffsets, groups.reset_offsets),
    "delete-offsets": ActionKind("Delete a group's offsets", groups.DeleteOffsets, groups.delete_offsets),
    "delete-group": ActionKind("Delete a group", groups.OfGroup, groups.delete_group),
}
