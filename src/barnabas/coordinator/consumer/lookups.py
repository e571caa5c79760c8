"""Looks the regular expressions of groups up, beside the requests that ask for it (``TopicRegexResolver``)."""

from typing import Final

from barnabas.coordinator.consumer.advancing import Advancement
from barnabas.coordinator.consumer.expressions import look_up, must_look_up, plan_resolved
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.plan import Plan, Writer
from barnabas.coordinator.consumer.subscriptions import ResolvedExpression
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices

_events: Final = EventLog("coordinator.consumer")


class Lookups:
    """One look-up at a time for each group."""

    def __init__(
        self, clock: Clock, topics: TopicsImage, *, advancement: Advancement, writer: Writer
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._advancement = advancement
        self._writer = writer
        self._known: set[str] = set()
        """Topics that expressions have been held against."""
        self._topics_came_ms = clock.time_ms()

    def topics_changed(self, topics: set[str]) -> None:
        """Topics have come, changed or gone; expressions are only looked up again for those that came."""
        came = topics.intersection(self._topics.names())
        if not came <= self._known:
            self.look_again()
        self._known = (self._known - topics) | came

    def look_again(self) -> None:
        """There may be topics that no expression was held against; the next heartbeat of each group looks."""
        self._topics_came_ms = self._clock.time_ms()

    def begin_if_due(self, shard: Shard, group: ConsumerGroup) -> None:
        """Looks up after the present request, if it is time."""
        if must_look_up(group, self._clock.time_ms(), self._topics_came_ms):
            group.lookup_running = True
            self._clock.call_soon(lambda: self._look_up(shard, group))

    @steps
    def _look_up(self, shard: Shard, group: ConsumerGroup) -> Steps[None]:
        version, now_ms, names = self._topics_came_ms, self._clock.time_ms(), list(self._topics.names())
        self._known.update(names)
        try:
            matching = yield look_up(list(group.subscriptions.expressions), names, Slices(self._clock))
        finally:
            group.lookup_running = False
        if shard.groups.get(group.group_id) is group:
            self._write(
                shard,
                group,
                {
                    expression: ResolvedExpression(topics, version, now_ms)
                    for expression, topics in matching.items()
                },
            )

    def _write(self, shard: Shard, group: ConsumerGroup, resolved: dict[str, ResolvedExpression]) -> None:
        plan = Plan(group)
        changed = plan_resolved(plan, resolved)
        self._advancement.plan_metadata(plan, bump=changed)
        try:
            self._writer.write(shard, plan, None)
        except KafkaError as error:
            # The next heartbeat finds the expressions as unresolved as before.
            _events.warning("expressions.not_written", group=group.group_id, error=error)
