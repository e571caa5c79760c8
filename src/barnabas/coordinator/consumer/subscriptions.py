"""`Subscriptions`: the topics that a group reads, by name and by regular expression (``SubscriptionCount``)."""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.coordinator.consumer.counts import Counts
from barnabas.coordinator.consumer.member import ConsumerMember


class ResolvedExpression(NamedTuple):
    """The topics that a regular expression stood for when it was last looked up."""

    topics: frozenset[str]
    version: int
    """Of the metadata: when this broker last heard of a change, in ms since 1970."""
    timestamp: int
    """When it was looked up, in ms since 1970."""


class Subscriptions:
    """Who reads what, counted, so that a change of one member costs no walk over all."""

    __slots__ = ("_by_expression", "_by_name", "expressions", "resolved")

    def __init__(self) -> None:
        self._by_name = Counts()
        self._by_expression = Counts()
        self.expressions = Counts()
        """How many members use each regular expression."""
        self.resolved: dict[str, ResolvedExpression] = {}

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Forgets what a member wanted and counts what it wants now."""
        if old is not None:
            self._by_name.take(old.subscribed_topic_names)
            self.expressions.take(_expressions(old))
        if new is not None:
            self._by_name.add(new.subscribed_topic_names)
            self.expressions.add(_expressions(new))

    def resolve(self, expression: str, resolved: ResolvedExpression | None) -> None:
        """Takes over what an expression stands for; None: nobody uses it any more."""
        if expression in self.resolved:
            self._by_expression.take(self.resolved.pop(expression).topics)
        if resolved is not None:
            self.resolved[expression] = resolved
            self._by_expression.add(resolved.topics)

    def after(
        self, changes: Iterable[tuple[ConsumerMember | None, ConsumerMember | None]]
    ) -> "Subscriptions":
        """What would be after members change; expressions that nobody uses then are forgotten."""
        copy = Subscriptions()
        copy._by_name, copy._by_expression = self._by_name.copy(), self._by_expression.copy()
        copy.expressions, copy.resolved = self.expressions.copy(), dict(self.resolved)
        for old, new in changes:
            copy.replace(old, new)
        for expression in [one for one in copy.resolved if one not in copy.expressions]:
            copy.resolve(expression, None)
        return copy

    def topics(self) -> list[str]:
        """All topics that a member reads, in a fixed order."""
        return sorted({**self._by_name, **self._by_expression})

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member reads; an expression that is not looked up yet stands for none."""
        resolved = self.resolved.get(member.subscribed_topic_regex)
        names = member.subscribed_topic_names
        return names if resolved is None else names | resolved.topics

    def __contains__(self, topic: object) -> bool:
        return topic in self._by_name or topic in self._by_expression

    def reads_any(self, topics: set[str]) -> bool:
        """Whether a member reads one of these; takes as long as there are topics that members read."""
        return not (topics.isdisjoint(self._by_name) and topics.isdisjoint(self._by_expression))

    def are_equal_for(self, member_count: int) -> bool:
        """Whether each of so many members reads the same topics (``SubscriptionType.HOMOGENEOUS``)."""
        if not self.expressions:
            return all(count == member_count for count in self._by_name.values())
        if len(self.expressions) > 1 or member_count not in self.expressions.values():
            return False
        return all(count == member_count for count in self._by_name.values())

    def last_lookup_ms(self) -> int:
        """When an expression was last looked up; a very long time ago if none ever was."""
        return max((one.timestamp for one in self.resolved.values()), default=-(1 << 62))

    def last_version(self) -> int:
        """The oldest metadata that an expression was looked up in."""
        return min((one.version for one in self.resolved.values()), default=0)

    def __repr__(self) -> str:
        return f"<Subscriptions topics={self.topics()} expressions={dict(self.expressions)}>"


def _expressions(member: ConsumerMember) -> Iterable[str]:
    return (member.subscribed_topic_regex,) if member.subscribed_topic_regex else ()
