"""Subscriptions by regular expression, resolved by the coordinator (KIP-848, Kafka 4).

Theory of operation
-------------------
A member may subscribe to a regular expression of RE2, which cannot be made to run away. Its first use is
checked at once and looked up a moment later, when the request is answered: the topics that it stands for are
a record, and a new epoch of the group. All expressions of a group are looked up together, so that a new topic
costs one rebalance, not one for each expression. They are looked up again when topics come, at the latest
every ten minutes, at the earliest every ten seconds.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.plan import Plan
from barnabas.coordinator.consumer.subscriptions import ResolvedExpression
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices

_events: Final = EventLog("coordinator.consumer")

LOOKUP_INTERVAL_MIN_MS: Final = 10_000
LOOKUP_INTERVAL_MAX_MS: Final = 10 * 60 * 1000


_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What RE2 calls a mistake, and what its Java edition calls it, which clients of Kafka know."""


class ExpressionChange(Enum):
    """What a request did to a member's regular expression."""

    NONE = 0
    UNRESOLVED = 1
    """The new one has not been looked up; the group's epoch rises when it has."""
    RESOLVED = 2
    """The topics of the new one are known already, or there is none any more."""


def compile_expression(expression: str) -> Any:
    """The compiled expression. Raises INVALID_REGULAR_EXPRESSION."""
    import re2  # noqa: PLC0415 - loaded when the first member subscribes like this

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options=options)
    except re2.error as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {_mistake(error)}.",
        ) from error


def _mistake(error: Exception) -> str:
    """What is wrong, without the place where it is."""
    text: str = error.args[0].decode(errors="replace").partition(": ")[0]
    return _WORDS.get(text, text)


def plan_change(plan: Plan, old: ConsumerMember, new: ConsumerMember) -> ExpressionChange:
    """Plans for a member's change of its expression. Raises INVALID_REGULAR_EXPRESSION."""
    if old.subscribed_topic_regex == new.subscribed_topic_regex:
        return ExpressionChange.NONE
    subscriptions = plan.group.subscriptions
    before, after = old.subscribed_topic_regex, new.subscribed_topic_regex
    if before and subscriptions.expressions.get(before) == 1:
        plan.records.append(records.regular_expression_tombstone(plan.group.group_id, before))
    if not after:
        return ExpressionChange.RESOLVED
    if after not in subscriptions.expressions:
        compile_expression(after)
    return ExpressionChange.RESOLVED if after in subscriptions.resolved else ExpressionChange.UNRESOLVED


def must_look_up(group: ConsumerGroup, now_ms: int, topics_changed_ms: int) -> bool:
    """Whether the group's expressions are to be looked up now."""
    subscriptions = group.subscriptions
    if not subscriptions.expressions or group.lookup_running:
        return False
    last_ms = subscriptions.last_lookup_ms()
    if now_ms <= last_ms + LOOKUP_INTERVAL_MIN_MS:
        return False
    return (
        len(subscriptions.expressions) != len(subscriptions.resolved)
        or subscriptions.last_version() < topics_changed_ms
        or now_ms > last_ms + LOOKUP_INTERVAL_MAX_MS
    )


@steps
def look_up(expressions: list[str], names: Iterable[str], slices: Slices) -> Steps[dict[str, frozenset[str]]]:
    """The topics that each expression stands for; the whole name must match.

    One that Java's RE2 took and this one does not stands for none.
    """
    patterns = _compiled(expressions)
    matching: dict[str, set[str]] = {expression: set() for expression in expressions}
    for name in list(names):
        for expression, pattern in patterns.items():
            if pattern.fullmatch(name) is not None:
                matching[expression].add(name)
        if slices.over():
            yield slices.next_turn()
    return {expression: frozenset(topics) for expression, topics in matching.items()}


def _compiled(expressions: Iterable[str]) -> dict[str, Any]:
    compiled = {}
    for expression in expressions:
        try:
            compiled[expression] = compile_expression(expression)
        except KafkaError as error:
            _events.error("expressions.unreadable", expression=expression, error=error)
    return compiled


def plan_resolved(plan: Plan, resolved: dict[str, ResolvedExpression]) -> bool:
    """Plans the records of what was looked up; whether an expression stands for other topics than before."""
    subscriptions = plan.subscriptions = plan.group.subscriptions.after(())
    changed = False
    for expression, new in resolved.items():
        if expression not in subscriptions.expressions:
            continue
        old = subscriptions.resolved.get(expression)
        changed = changed or new.topics != (frozenset() if old is None else old.topics)
        subscriptions.resolve(expression, new)
        plan.records.append(records.regular_expression(plan.group.group_id, expression, new))
    return changed
