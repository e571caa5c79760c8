"""Looks the regular expressions of groups up, beside the requests that ask for it (``TopicRegexResolver``)."""

from typing import Final

from barnabas.coordinator.consumer.advancing import Advancement
from barnabas.coordinator.consumer.expressions import look_up, must_look_up, plan_resolved
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.plan import Plan, Writer
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog

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
        self._topics_changed_ms = clock.time_ms()

    def topics_changed(self) -> None:
        """There may be topics that expressions stand for; the next heartbeat of each group looks."""
        self._topics_changed_ms = self._clock.time_ms()

    def begin_if_due(self, shard: Shard, group: ConsumerGroup) -> None:
        """Looks up after the present request, if it is time."""
        if must_look_up(group, self._clock.time_ms(), self._topics_changed_ms):
            group.lookup_running = True
            self._clock.call_soon(lambda: self._look_up(shard, group))

    def _look_up(self, shard: Shard, group: ConsumerGroup) -> None:
        group.lookup_running = False
        if shard.groups.get(group.group_id) is not group:
            return
        resolved = look_up(
            group.subscriptions.expressions,
            self._topics,
            version=self._topics_changed_ms,
            now_ms=self._clock.time_ms(),
        )
        plan = Plan(group)
        changed = plan_resolved(plan, resolved)
        self._advancement.plan_metadata(plan, bump=changed)
        try:
            self._writer.write(shard, plan, None)
        except KafkaError as error:
            # The next heartbeat finds the expressions as unresolved as before.
            _events.warning("expressions.not_written", group=group.group_id, error=error)
