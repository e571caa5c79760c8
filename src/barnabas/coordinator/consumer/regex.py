"""Subscriptions by regular expression, resolved by the coordinator (KIP-848, Kafka 4:
``TopicRegexResolver``).

Theory of operation
-------------------
A member may subscribe to a regular expression of RE2, whose matching takes linear time. The first use of an
expression is checked at once. It is resolved after the request has been handled: the topics that it matches
are written in a record, with a new epoch of the group. All expressions of a group are resolved together, so
that a new topic costs one rebalance, not one for each expression. They are resolved again when topics are
created, at the latest every ten minutes, at the earliest every ten seconds. The client whose heartbeat finds
that it is time says which topics count: those that it may describe.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final

from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.plan import ConsumerRuntime, Plan, write
from barnabas.coordinator.consumer.subscriptions import ResolvedExpression
from barnabas.coordinator.consumer.target_assignment import update_group_epoch
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps
from barnabas.core.regular_expressions import BadExpressionError, compiled
from barnabas.core.slices import Slices

_events: Final = EventLog("coordinator.consumer")

REFRESH_INTERVAL_MIN_MS: Final = 10_000
REFRESH_INTERVAL_MAX_MS: Final = 10 * 60 * 1000


class RegexUpdate(Enum):
    """What a request did to a member's regular expression (``UpdateRegularExpressionsResult``)."""

    NO_CHANGE = 0
    UPDATED = 1
    """The new one is not resolved yet; the group's epoch rises when it is."""
    UPDATED_AND_RESOLVED = 2
    """The topics of the new one are known already, or the member no longer has an expression."""


def maybe_update_regular_expressions(plan: Plan, old: ConsumerMember, new: ConsumerMember) -> RegexUpdate:
    """``maybeUpdateRegularExpressions``. Raises INVALID_REGULAR_EXPRESSION."""
    before, after = old.subscribed_topic_regex, new.subscribed_topic_regex
    if before == after:
        return RegexUpdate.NO_CHANGE
    subscriptions = plan.group.subscriptions
    # This member was the last to use the expression: its topics are forgotten.
    if before and subscriptions.expressions.get(before) == 1:
        plan.records.append(records.regular_expression_tombstone(plan.group.group_id, before))
    if not after:
        return RegexUpdate.UPDATED_AND_RESOLVED
    # Expressions of other members have been checked already.
    if after not in subscriptions.expressions:
        _compile(after)
    return RegexUpdate.UPDATED_AND_RESOLVED if after in subscriptions.resolved else RegexUpdate.UPDATED


def _compile(expression: str) -> Any:
    """Raises INVALID_REGULAR_EXPRESSION."""
    try:
        return compiled(expression)
    except BadExpressionError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}.",
        ) from error


def topics_changed(runtime: ConsumerRuntime, topics: set[str]) -> None:
    """Topics have been created, changed or deleted; expressions are resolved again only for new ones."""
    existing = topics.intersection(runtime.topics.names())
    if not existing <= runtime.matched_topics:
        runtime.new_topics_ms = runtime.clock.time_ms()
    runtime.matched_topics = (runtime.matched_topics - topics) | existing


def maybe_resolve_regular_expressions(
    runtime: ConsumerRuntime, shard: Shard, group: ConsumerGroup, may_describe: Callable[[str], bool]
) -> None:
    """Resolves the group's expressions after the present request, if it is time."""
    subscriptions, now_ms = group.subscriptions, runtime.clock.time_ms()
    if not subscriptions.expressions or group.lookup_running:
        return
    resolved = subscriptions.resolved.values()
    last_ms = max((one.timestamp for one in resolved), default=-(1 << 62))
    # Many topics may be created one after the other: one look-up for all that come within ten seconds.
    if now_ms <= last_ms + REFRESH_INTERVAL_MIN_MS:
        return
    if (
        # An expression without topics yet; topics that none was matched against; or too long ago (topics that
        # were deleted stay in the records until then).
        len(subscriptions.expressions) != len(resolved)
        or min((one.version for one in resolved), default=0) < runtime.new_topics_ms
        or now_ms > last_ms + REFRESH_INTERVAL_MAX_MS
    ):
        group.lookup_running = True
        runtime.clock.call_soon(lambda: _resolve(runtime, shard, group, may_describe))


@steps
def _resolve(
    runtime: ConsumerRuntime, shard: Shard, group: ConsumerGroup, may_describe: Callable[[str], bool]
) -> Steps[None]:
    """``refreshRegularExpressions``: one at a time for each group, in slices."""
    version, now_ms, names = runtime.new_topics_ms, runtime.clock.time_ms(), list(runtime.topics.names())
    # Noted before the walk: a topic that is created while it runs makes `new_topics_ms` later, and so a new
    # look-up.
    runtime.matched_topics.update(names)
    try:
        expressions = list(group.subscriptions.expressions)
        matching = yield _match(expressions, names, may_describe, Slices(runtime.clock))
    finally:
        group.lookup_running = False
    # Deleted, or unloaded, while names were matched in slices.
    if shard.groups.get(group.group_id) is not group:
        return
    # The group is read only now: members may have come and gone during the look-up.
    plan = Plan(group)
    update_group_epoch(runtime, plan, bump=_update_resolved(plan, matching, version, now_ms))
    try:
        write(runtime, shard, plan, None)
    except KafkaError as error:
        # The next heartbeat finds the expressions as unresolved as before.
        _events.warning("expressions.not_written", group=group.group_id, error=error)


@steps
def _match(
    expressions: Iterable[str], names: Iterable[str], may_describe: Callable[[str], bool], slices: Slices
) -> Steps[dict[str, frozenset[str]]]:
    """The topics that each expression matches; the whole name must match."""
    matching: dict[str, set[str]] = {}
    patterns: dict[str, Any] = {}
    for expression in expressions:
        matching[expression] = set()
        try:
            patterns[expression] = _compile(expression)
        except KafkaError as error:
            # Java's RE2 accepted it, and this one does not: it matches no topic.
            _events.error("expressions.unreadable", expression=expression, error=error)
    for name in names:
        matched = [expression for expression in patterns if patterns[expression].fullmatch(name) is not None]
        # KAFKA-18813: by an expression a client must not learn of topics that it may not describe.
        if matched and may_describe(name):
            for expression in matched:
                matching[expression].add(name)
        if slices.over():
            yield slices.next_turn()
    return {expression: frozenset(topics) for expression, topics in matching.items()}


def _update_resolved(plan: Plan, matching: dict[str, frozenset[str]], version: int, now_ms: int) -> bool:
    """``updateRegularExpressions``: plans the records;
    whether an expression matches other topics than before.
    """
    subscriptions = plan.subscriptions = plan.group.subscriptions.after(())
    changed = False
    for expression, topics in matching.items():
        # The last member that used it left meanwhile; its tombstone is written.
        if expression not in subscriptions.expressions:
            continue
        old = subscriptions.resolved.get(expression)
        changed = changed or topics != (frozenset() if old is None else old.topics)
        new = ResolvedExpression(topics, version, now_ms)
        subscriptions.resolve(expression, new)
        plan.records.append(records.regular_expression(plan.group.group_id, expression, new))
    return changed
