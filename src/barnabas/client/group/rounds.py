"""`Rounds`: one round of joining and syncing, and the leader's share in it."""

from collections.abc import Mapping, Sequence

from barnabas.client.assignors import Assignor, RebalanceProtocol, Topics, common_protocol
from barnabas.client.cluster import Cluster
from barnabas.client.errors import GroupError
from barnabas.client.group.coordinator_link import CoordinatorLink
from barnabas.client.group.leader import divide, offered_protocols, read_subscriptions, topics_with_racks
from barnabas.client.group.membership import Membership
from barnabas.client.group.settings import GroupSettings
from barnabas.client.group.subscriptions import Kind, Subscriptions
from barnabas.client.retries import Deadline
from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse

JOIN_GROUP_TIMEOUT_LAPSE_MS = 5_000
"""How much longer than the rebalance time-out an answer to JoinGroup may take."""


class Rounds:
    """Runs rounds one after the other, for one member."""

    def __init__(
        self,
        settings: GroupSettings,
        cluster: Cluster,
        subscriptions: Subscriptions,
        membership: Membership,
        link: CoordinatorLink,
        assignors: Sequence[Assignor],
    ) -> None:
        self.protocol: RebalanceProtocol = common_protocol(assignors)
        self.joined_topics: frozenset[str] | None = None
        """The subscription that the last round was joined with."""
        self.divided_topics: Topics | None = None
        """While this member leads: the topics as they were when it divided their partitions."""
        self._settings = settings
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._membership = membership
        self._link = link
        self._assignors = {assignor.name: assignor for assignor in assignors}

    def assignor(self, name: str | None) -> Assignor:
        """The assignor that the group agreed on."""
        chosen = self._assignors.get(name or "")
        if chosen is None:
            raise GroupError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Coordinator selected invalid assignment protocol: {name} (group {self._settings.group_id})",
            )
        return chosen

    async def run(self) -> bytes:
        """One round; this member's assignment. Raises KafkaError, DisconnectedError."""
        if self._subscriptions.kind is Kind.PATTERN:
            # Members that find a new topic at different times would each cause a rebalance of their own.
            await self._cluster.refresh()
            self._subscriptions.match(self._cluster.metadata)
        self.joined_topics = self._subscriptions.topics
        sent = self._membership.generation
        request = self._membership.join_request(
            offered_protocols(
                self._assignors.values(),
                self.joined_topics,
                self._subscriptions.partitions,
                sent.number,
                self._settings.rack,
            )
        )
        response = await self._link.send(request, JoinGroupResponse, timeout_ms=self._join_timeout_ms)
        leads = self._membership.joined(response, sent)
        return await self._sync(await self._lead(response) if leads else {})

    @property
    def _join_timeout_ms(self) -> int:
        return max(
            self._settings.request_timeout_ms,
            self._settings.rebalance_timeout_ms + JOIN_GROUP_TIMEOUT_LAPSE_MS,
        )

    async def _sync(self, assignments: Mapping[str, bytes]) -> bytes:
        sent = self._membership.generation
        response = await self._link.send(self._membership.sync_request(assignments), SyncGroupResponse)
        return self._membership.synced(response, sent)

    async def _lead(self, response: JoinGroupResponse) -> Mapping[str, bytes]:
        """The assignment of each member; of none where the last one still stands (KIP-814)."""
        assignor = self.assignor(response.protocol_name)
        subscriptions = read_subscriptions(response.members)
        topics = frozenset(topic for one in subscriptions.values() for topic in one.topics)
        # The leader watches the topics of all members: its own view decides when to divide anew.
        self._subscriptions.group_topics = topics
        await self._know(topics)
        self.divided_topics = self.relevant_topics()
        if response.skip_assignment:
            return {}
        existing = topics_with_racks(self._cluster.metadata, topics)
        return divide(assignor, self.protocol, existing, subscriptions)

    async def _know(self, topics: frozenset[str]) -> None:
        self._cluster.need(topics)
        metadata = self._cluster.metadata
        if all(topic in metadata.topics or topic in metadata.errors for topic in topics):
            return
        await self._cluster.retrying(
            self._cluster.refresh,
            Deadline(self._settings.request_timeout_ms),
            f"No metadata of the topics of group {self._settings.group_id}",
        )

    def relevant_topics(self) -> Topics:
        """What the assignment depends on: partitions of the topics, and racks where this client has one."""
        known = topics_with_racks(self._cluster.metadata, self._subscriptions.metadata_topics)
        if self._settings.rack is not None:
            return known
        return {topic: [frozenset()] * len(partitions) for topic, partitions in known.items()}

    def __repr__(self) -> str:
        return f"<Rounds {self._settings.group_id} {self.protocol.name} {'leads' if self.divided_topics else ''}>"
