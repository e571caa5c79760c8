"""Consumers that say their rack are sent to the replica there (KIP-392)."""

import pytest
from replica_rig import TP, Rig

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.fetch import Fetches
from barnabas.replica.fetch_reader import FetchParams, FetchReader
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.partition import Isolation
from barnabas.replica.purgatory import Purgatory
from barnabas.replica.selector import LEADER_SELECTOR, RACK_AWARE_SELECTOR, replica_selector
from metadata_updates import apply

RACKS = {1: "a", 2: "b", 3: "b", 4: "c"}
LISTENER = "CLIENTS"


class Racks:
    """Broker 1 leads; 2 and 3 follow in another rack, 4 in a third."""

    def __init__(self, name=RACK_AWARE_SELECTOR):
        self.rig = Rig()
        self.metadata = MetadataCache(1)
        self.live(*RACKS)
        hosted = HostedPartitions(self.metadata)
        hosted.online[TP] = self.rig.partition
        purgatory = Purgatory("Fetch", self.rig.clock)
        reader = FetchReader(hosted, replica_selector(name, self.metadata))
        self.fetches = Fetches(reader, purgatory, self.rig.clock)
        self.rig.alive |= set(RACKS)
        self.rig.lead(isr=(1, 2, 3, 4), replicas=(1, 2, 3, 4))
        for _ in range(5):
            self.rig.append()

    def live(self, *brokers, listener=LISTENER, racks=RACKS):
        endpoints = [UpdateMetadataEndpoint(listener=listener, host="there", port=9092, security_protocol=0)]
        live = [UpdateMetadataBroker(id=each, endpoints=endpoints, rack=racks[each]) for each in brokers]
        apply(self.metadata, UpdateMetadataRequest(live_brokers=live))

    def ask(self, rack="b", offset=2, **fields):
        params = FetchParams(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation=fields.pop("isolation", Isolation.HIGH_WATERMARK),
            rack=rack,
            listener=LISTENER,
            **fields,
        )
        wanted = CachedPartition(
            "orders", ZERO_UUID, 0, fetch_offset=offset, max_bytes=1 << 20, current_leader_epoch=0
        )
        answer = self.fetches.fetch(params, [wanted])
        return answer[0] if isinstance(answer, list) else None

    def preferred(self, *args, **kwargs):
        read = self.ask(*args, **kwargs)
        return -1 if read is None else read.preferred_read_replica


@pytest.fixture
def racks():
    made = Racks()
    for follower, offset in ((2, 4), (3, 5), (4, 5)):
        made.rig.fetch_as(follower, offset)
    return made


def test_the_replica_in_the_rack_that_is_furthest_is_named_at_once(racks):
    read = racks.ask()
    assert (read.preferred_read_replica, read.error, read.size) == (3, ErrorCode.NONE, 0)
    assert read.found.high_watermark == 4


@pytest.mark.parametrize("rack", ["a", "", "elsewhere"])
def test_a_consumer_of_the_leaders_rack_or_of_none_stays(racks, rack):
    read = racks.ask(rack)
    assert (read.preferred_read_replica, read.size > 0) == (-1, True)


def test_a_leader_that_is_as_near_as_its_followers_serves(racks):
    racks.live(*RACKS, racks=RACKS | {1: "b"})
    assert racks.preferred() == -1


def test_a_replica_that_lacks_the_offset_is_not_named(racks):
    assert racks.preferred(offset=4) == 3
    racks.rig.append()
    assert racks.preferred(offset=6) == -1


def test_a_replica_that_is_not_in_sync_is_not_named(racks):
    racks.rig.partition.isr_state = type(racks.rig.partition.isr_state)(frozenset({1, 2, 4}))
    assert racks.preferred() == 2


def test_a_replica_that_is_gone_or_lacks_the_listener_is_not_named(racks):
    racks.live(1, 2, 4)
    assert racks.preferred() == 2
    racks.live(*RACKS, listener="OTHERS")
    assert racks.preferred() == -1


def test_a_follower_is_never_sent_away(racks):
    assert racks.preferred(replica_id=2, isolation=Isolation.LOG_END) == -1


def test_a_replica_that_follows_serves_who_comes(racks):
    racks.rig.follow(epoch=1)
    assert racks.preferred(leader_only=False) == -1


@pytest.mark.parametrize("name", [None, LEADER_SELECTOR])
def test_without_a_selector_consumers_read_from_leaders(name):
    racks = Racks(name)
    racks.rig.fetch_as(3, 5)
    assert racks.preferred() == -1
