"""Members of classic groups as scenarios play them: what they send, and what they remember of the answers."""

import time
from collections.abc import Callable
from typing import Any, Final

from barnabas.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from parity.world import World

PATIENCE_S: Final = 10
SESSION_MS: Final = 30_000
REBALANCE_MS: Final = 60_000
JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
"""The newest versions."""


def subscription(*topics: str) -> bytes:
    """What a consumer says of itself."""
    return ConsumerProtocolSubscription(topics=list(topics)).to_bytes(0)


def assignment(topic: str, *partitions: int) -> bytes:
    """What a consumer is told to read."""
    assigned = [TopicPartition(topic=topic, partitions=list(partitions))]
    return ConsumerProtocolAssignment(assigned_partitions=assigned).to_bytes(0)


class Member:
    """One member; `version` is that of its joins, and the others follow it as far as they go."""

    def __init__(self, world: World, group: str, name: str, *, version: int = JOIN, **fields: Any) -> None:
        self._world = world
        self.group = group
        self.name = name
        self.version = version
        self.id = ""
        self.generation = -1
        self.fields = fields
        self.instance: str | None = fields.get("group_instance_id")
        self.leads = False
        self._turn = 0

    def _what(self, verb: str) -> str:
        self._turn += 1
        return f"{self.name} {verb} ({self._turn})"

    def join_request(self, **fields: Any) -> JoinGroupRequest:
        """A request to join as what it is now."""
        given: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription("grouped"))],
        }
        return JoinGroupRequest(**(given | self.fields | fields))

    def join(self, what: str = "joins", **fields: Any) -> Any:
        """Joins, and once more where it is told to come back with an id."""
        response = self.joined(self._world.ask(self._what(what), self.join_request(**fields), self.version))
        if response.error_code == 79:  # MEMBER_ID_REQUIRED
            again = self._what("joins by its id")
            response = self.joined(self._world.ask(again, self.join_request(**fields), self.version))
        return response

    def park_join(self, **fields: Any) -> Callable[[], Any]:
        """Joins, as a new member, a group that waits for others."""
        if not self.id and self.version >= 4 and self.instance is None:
            self.joined(
                self._world.ask(self._what("asks for its id"), self.join_request(**fields), self.version)
            )
        before = len(self._described().members)
        parked = self._world.park(self._what("joins and waits"), self.join_request(**fields), self.version)
        self._until_waiting(before + 1)
        return lambda: self.joined(parked.answer())

    def _described(self) -> Any:
        return self._world.prepare(DescribeGroupsRequest(groups=[self.group]), 5).groups[0]

    def _until_waiting(self, members: int) -> None:
        """What is sent on one connection may overtake what was sent before on another."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            group = self._described()
            if (group.group_state, len(group.members)) == ("PreparingRebalance", members):
                return
            assert time.monotonic() < deadline, f"{self!r} does not wait in {group!r}"
            time.sleep(0.01)

    def joined(self, response: Any) -> Any:
        """Remembers what an answer to a join said; the same response."""
        if response.error_code in {0, 79}:
            self.id = response.member_id
            self.generation = response.generation_id
            self.leads = response.leader == response.member_id
        return response

    def sync_request(self, parts: dict[str, bytes] | None = None, **fields: Any) -> SyncGroupRequest:
        """A request for its part; the leader brings everybody's."""
        version = min(self.version, SYNC)
        given: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "assignments": [
                SyncGroupRequestAssignment(member_id=member, assignment=part)
                for member, part in (parts or {}).items()
            ],
        }
        if version >= 5:
            given |= {"protocol_type": "consumer", "protocol_name": "range"}
        return SyncGroupRequest(**(given | fields))

    def sync(self, parts: dict[str, bytes] | None = None, what: str = "syncs", **fields: Any) -> Any:
        """Asks for its part."""
        request = self.sync_request(parts, **fields)
        return self._world.ask(self._what(what), request, min(self.version, SYNC))

    def park_sync(self, **fields: Any) -> Callable[[], Any]:
        """Asks for its part before the leader has brought it."""
        request = self.sync_request(**fields)
        return self._world.park(self._what("syncs and waits"), request, min(self.version, SYNC)).answer

    def beat(self, what: str = "is alive", **fields: Any) -> Any:
        """Sends a heartbeat."""
        given: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        request = HeartbeatRequest(**(given | fields))
        return self._world.ask(self._what(what), request, min(self.version, HEARTBEAT))

    def leave(self, what: str = "leaves") -> Any:
        """Leaves."""
        version = min(self.version, LEAVE)
        if version < 3:
            request = LeaveGroupRequest(group_id=self.group, member_id=self.id)
        else:
            identity = MemberIdentity(member_id=self.id, group_instance_id=self.instance)
            request = LeaveGroupRequest(group_id=self.group, members=[identity])
        return self._world.ask(self._what(what), request, version)

    def live(self, topic: str = "grouped") -> "Member":
        """Joins a group of its own and takes its one part."""
        self.join()
        self.sync({self.id: assignment(topic, 0)})
        return self

    def __repr__(self) -> str:
        return f"<Member {self.name} of {self.group} v{self.version} {self.id} generation={self.generation}>"
