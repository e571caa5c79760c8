"""The same requests about offsets, byte for byte, to a genuine Kafka 3.9 and to ours: the same answers."""

import re
import socket
import struct
import time

import pytest

from barnabas.core.chunks import materialize
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(180)]

PREFIX = f"same-{time.time_ns() // 1_000_000}-"


class Peer:
    """A connection to one broker, and the record of what it answered."""

    def __init__(self, bootstrap):
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 20)
        self._reader = self._socket.makefile("rb")
        self.answers = {}

    def ask(self, request, version):
        header = RequestHeader(request.api, version, 7, "same")
        self._socket.sendall(materialize(encode_request(header, request)))
        frame = self._reader.read(struct.unpack(">i", self._reader.read(4))[0])
        return decode_response(request.api, version, frame)[1]

    def close(self):
        self._reader.close()
        self._socket.close()

    def note(self, label, answer):
        """Answers in an order of their own: Kafka's come in that of a hash map."""
        for named in [answer, *getattr(answer, "groups", [])]:
            for topic in getattr(named, "topics", []):
                topic.partitions.sort(key=lambda one: one.partition_index)
            getattr(named, "topics", []).sort(key=lambda topic: topic.name)
        getattr(answer, "results", []).sort(key=lambda result: result.group_id)
        self.answers[label] = re.sub(r"(.)\1{50,}", r"\1...", repr(answer))

    # Requests in short: topics are {name: ...}

    def create(self, name, partitions):
        topic = CreatableTopic(name=PREFIX + name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        until(lambda: self.ask(request, 5).topics[0].error_code in {0, 36})

    def settle(self, group):
        """Waits until the group's coordinator serves it and knows the topics."""
        name = PREFIX + group
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[name])
        until(lambda: not self.ask(find, 4).coordinators[0].error_code)
        fetch = OffsetFetchRequest(group_id=name, topics=None)
        until(lambda: not self.ask(fetch, 5).error_code)

    def commit(self, label, group, topics, version=8, **fields):
        """`topics`: {name: [(partition, offset, metadata, leader epoch), ...]}, the last two at will."""
        requested = [
            OffsetCommitRequestTopic(
                name=PREFIX + name, partitions=[commit_partition(*one) for one in partitions]
            )
            for name, partitions in topics
        ]
        request = OffsetCommitRequest(group_id=PREFIX + group, topics=requested, **fields)
        self.note(label, self.ask(request, version))

    def fetch(self, label, groups, topics=None, version=7, *, stable=False):
        if version < 8:
            wanted = topics and [
                OffsetFetchRequestTopic(name=PREFIX + name, partition_indexes=list(indexes))
                for name, indexes in topics
            ]
            request = OffsetFetchRequest(group_id=PREFIX + groups, topics=wanted, require_stable=stable)
        else:
            wanted = topics and [
                OffsetFetchRequestTopics(name=PREFIX + name, partition_indexes=list(indexes))
                for name, indexes in topics
            ]
            asked = [OffsetFetchRequestGroup(group_id=PREFIX + name, topics=wanted) for name in groups]
            request = OffsetFetchRequest(groups=asked, require_stable=stable)
        self.note(label, self.ask(request, version))

    def delete(self, label, group, topics):
        requested = [
            OffsetDeleteRequestTopic(
                name=PREFIX + name,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for name, indexes in topics
        ]
        request = OffsetDeleteRequest(group_id=group and PREFIX + group, topics=requested)
        self.note(label, self.ask(request, 0))


def commit_partition(index, offset, metadata="", leader_epoch=-1):
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        committed_metadata=metadata,
    )


def every_version(peer):
    for version in range(2, 10):
        peer.commit(f"commit {version}", f"v{version}", [("orders", [(0, 5), (1, 6, "é", 7)])], version)
    for version in range(1, 8):
        topics = [("orders", range(3)), ("bills", [0]), ("nowhere", [0])]
        peer.fetch(f"fetch {version}", f"v{version + 1}", topics, version)
        peer.fetch(f"fetch of nobody {version}", "nobody", topics, version)
    for version in (8, 9):
        peer.fetch(f"fetch all {version}", ["v2", "v8", "nobody"], None, version)
        peer.fetch(f"fetch {version}", ["v3", "nobody"], [("orders", [1, 0, 1])], version)
    peer.fetch("fetch stable", "v5", stable=True)
    peer.commit("retention of its own", "r", [("orders", [(0, 1)])], 3, retention_time_ms=1000)


def odd_commits(peer):
    orders = [("orders", [(0, 1)])]
    peer.commit("twice", "d", [("orders", [(0, 1), (0, 2)]), ("orders", [(1, 3)]), ("orders", [(0, 9)])])
    peer.fetch("of twice", "d")
    peer.commit("unknown topic", "d", [("nowhere", [(0, 1)]), ("orders", [(7, 1), (2, 5)])])
    peer.commit("only unknown topics", "d", [("nowhere", [(0, 1)])])
    peer.commit("no topics", "d", [])
    peer.commit("no partitions", "d", [("orders", [])])
    lengths = [(0, 1, "x" * 4096), (1, 1, "x" * 4097), (2, 1, "é" * 4096), (3, 1, "🦉" * 2049)]
    peer.commit("metadata", "b", [("orders", lengths)])
    peer.fetch("of metadata", "b")
    peer.commit("only long metadata", "b", [("orders", [(1, 1, "x" * 4097)])])
    peer.commit("null metadata", "n", [("orders", [(0, 1, None, 7)])])
    peer.commit("negative", "n", [("orders", [(1, -5)])])
    peer.fetch("of null and negative", "n")
    for version in (8, 9):
        fields = {"generation_id_or_member_epoch": 3, "member_id": "m", "version": version}
        peer.commit(f"generation, no group {version}", "never", orders, **fields)
        peer.commit(f"generation of a simple group {version}", "d", orders, **fields)
    peer.commit("generation 0", "never", orders, generation_id_or_member_epoch=0)
    peer.commit("member without generation", "d", orders, member_id="m")
    peer.commit("instance without generation", "d", orders, group_instance_id="i")


def deletions(peer):
    peer.delete("delete", "d", [("orders", [0, 1]), ("nowhere", [0])])
    peer.fetch("after delete", "d")
    peer.delete("delete twice", "v2", [("orders", [0, 0]), ("orders", [1])])
    peer.fetch("after delete twice", "v2")
    peer.delete("delete of a group that went", "v2", [("orders", [0])])
    peer.delete("delete of nobody", "never", [("orders", [0])])
    peer.delete("delete nothing", "d", [])
    peer.delete("delete without a group", "", [("orders", [0])])
    doomed = [PREFIX + name for name in ("b", "never", "v3", "v3")]
    peer.note("delete groups", peer.ask(DeleteGroupsRequest(groups_names=doomed), 2))
    peer.fetch("of a deleted group", "v3")


def a_topic_goes(peer):
    peer.commit("in a topic that goes", "x", [("gone", [(0, 1)]), ("orders", [(0, 1)])])
    request = DeleteTopicsRequest(topic_names=[PREFIX + "gone"], timeout_ms=10_000)
    assert peer.ask(request, 5).responses[0].error_code == 0
    both = OffsetFetchRequest(group_id=PREFIX + "x", topics=None)
    until(lambda: len(peer.ask(both, 7).topics) == 1)
    peer.fetch("after the topic went", "x")


def test_the_same_answers(kafka39, serve, tmp_path):
    # A 4.4 refuses a generation of an unknown group in other words.
    broker = serve(tmp_path / "data", "--set", "barnabas.api.profile=3.9")
    broker.wait_until_ready()
    told = []
    for bootstrap in (kafka39, broker.bootstrap):
        peer = Peer(bootstrap)
        for name, partitions in (("orders", 4), ("bills", 1), ("gone", 2)):
            peer.create(name, partitions)
        for group in (
            "d",
            "b",
            "n",
            "r",
            "x",
            "nobody",
            "never",
            *(f"v{version}" for version in range(2, 10)),
        ):
            peer.settle(group)
        time.sleep(1)  # until the last topic is known; Kafka tells nobody when that is
        for scene in (every_version, odd_commits, deletions, a_topic_goes):
            scene(peer)
        peer.close()
        told.append(peer.answers)

    theirs, ours = told
    assert len(ours) > 55
    assert ours == theirs
