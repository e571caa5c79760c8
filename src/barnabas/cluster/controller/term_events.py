"""Turns what a term's watches tell into events of the controller's queue."""

from collections.abc import Callable
from typing import TypeAlias

from barnabas.cluster.controller.broker_changes import broker_change, broker_modification, log_dir_failure
from barnabas.cluster.controller.leader_elections import preferred_election_by_znode
from barnabas.cluster.controller.term import Term
from barnabas.cluster.controller.topic_changes import partition_modification, topic_change, topic_deletion
from barnabas.cluster.store.contract import WatchEvent
from barnabas.core.pending import Pending

Put: TypeAlias = Callable[[str, Callable[[Term], Pending[None]]], object]
"""Queues an event: Kafka's name of it, and what it does to the term that is in office by then."""


class QueuedTermEvents:
    """A `barnabas.cluster.controller.term.TermEvents` that queues."""

    def __init__(self, put: Put) -> None:
        self._put = put

    def brokers_changed(self, _: WatchEvent) -> None:
        """A broker came or went."""
        self._put("BrokerChange", broker_change)

    def broker_written(self, event: WatchEvent) -> None:
        """A broker wrote its registration."""
        broker_id = int(event.path.rpartition("/")[2])
        self._put("BrokerModifications", lambda term: broker_modification(term, broker_id))

    def topics_changed(self, _: WatchEvent) -> None:
        """A topic came or went."""
        self._put("TopicChange", topic_change)

    def topic_written(self, event: WatchEvent) -> None:
        """A topic's assignment was written."""
        topic = event.path.rpartition("/")[2]
        self._put("PartitionModifications", lambda term: partition_modification(term, topic))

    def deletions_changed(self, _: WatchEvent) -> None:
        """A topic was marked for deletion, or a mark was removed."""
        self._put("TopicDeletion", topic_deletion)

    def log_dir_event(self, _: WatchEvent) -> None:
        """A broker lost a log directory."""
        self._put("LogDirEventNotification", log_dir_failure)

    def preferred_election(self, _: WatchEvent) -> None:
        """A tool asks for preferred leaders."""
        self._put("ReplicaLeaderElection", preferred_election_by_znode)
