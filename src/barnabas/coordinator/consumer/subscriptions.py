"""`Subscriptions`: the topics that a group reads, by name and by regular expression
(``SubscriptionCount``).
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.coordinator.consumer.member import ConsumerMember


class Counts(dict[str, int]):
    """How many members share each name of a topic, an expression, an assignor or a protocol;
    zeros are left out.
    """

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            self[name] = self.get(name, 0) + 1

    def take(self, names: Iterable[str]) -> None:
        for name in names:
            left = self.get(name, 0) - 1
            if left > 0:
                self[name] = left
            else:
                self.pop(name, None)

    def copy(self) -> "Counts":
        return Counts(self)


class ResolvedExpression(NamedTuple):
    """The topics that a regular expression matched when it was last looked up
    (``ResolvedRegularExpression``).
    """

    topics: frozenset[str]
    version: int
    """Of the metadata: when this broker last learnt of a new topic, in ms since 1970."""
    timestamp: int
    """When it was looked up, in ms since 1970."""


class Subscriptions:
    """The topics and expressions of all members, counted, so that a change of one member costs no walk over
    all.
    """

    __slots__ = ("_by_expression", "_by_name", "expressions", "resolved")

    def __init__(self) -> None:
        self._by_name = Counts()
        self._by_expression = Counts()
        self.expressions = Counts()
        """How many members use each regular expression."""
        self.resolved: dict[str, ResolvedExpression] = {}

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        if old is not None:
            self._by_name.take(old.subscribed_topic_names)
            self.expressions.take(_expressions(old))
        if new is not None:
            self._by_name.add(new.subscribed_topic_names)
            self.expressions.add(_expressions(new))

    def resolve(self, expression: str, resolved: ResolvedExpression | None) -> None:
        """Sets the topics that an expression matches; None: no member uses it now."""
        if expression in self.resolved:
            self._by_expression.take(self.resolved.pop(expression).topics)
        if resolved is not None:
            self.resolved[expression] = resolved
            self._by_expression.add(resolved.topics)

    def after(
        self, changes: Iterable[tuple[ConsumerMember | None, ConsumerMember | None]]
    ) -> "Subscriptions":
        """A copy in which members have changed; expressions that no member uses then are forgotten."""
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
        """Takes as long as there are topics that members read."""
        return not (topics.isdisjoint(self._by_name) and topics.isdisjoint(self._by_expression))

    def are_equal_for(self, member_count: int) -> bool:
        """Whether each of `member_count` members reads the same topics (``SubscriptionType.HOMOGENEOUS``)."""
        if self.expressions and (len(self.expressions) > 1 or member_count not in self.expressions.values()):
            return False
        return all(count == member_count for count in self._by_name.values())

    def __repr__(self) -> str:
        return f"<Subscriptions topics={self.topics()} expressions={dict(self.expressions)}>"


def _expressions(member: ConsumerMember) -> Iterable[str]:
    return (member.subscribed_topic_regex,) if member.subscribed_topic_regex else ()
