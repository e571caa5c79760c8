"""Every key of the coordinator's configuration takes effect, from its name to what clients see of it.

The keys of the topic itself (replicas, segments) are held to their word in
``tests/broker/test_find_coordinator.py``.
"""

import pytest
from life_rig import ME, OTHER, Life, code, commit_bytes

from barnabas.coordinator.runtime import loading
from barnabas.core.broker_config import broker_config
from barnabas.core.coordinator_config import GROUP_KEYS, RANGE_ASSIGNOR
from barnabas.core.errors import ConfigError, ErrorCode
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending
from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from handled import answered, handled

MINUTE_MS = 60_000
BOTH = {"group_coordinator_rebalance_protocols": "classic,consumer"}


def serving(**config):
    return Life(**config).elect()


def settled(answer):
    return answer.result() if isinstance(answer, Pending) else answer


def join(life, *, session_ms=10_000, group="g"):
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(
                name="range", metadata=ConsumerProtocolSubscription(topics=["orders"]).to_bytes(1)
            )
        ],
    )
    return answered(life.coordinator, request, 3)


def beat(life, member_id="m", epoch=0, **fields):
    first = {"rebalance_timeout_ms": 10_000, "topic_partitions": [], "subscribed_topic_names": ["orders"]}
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **(first if epoch == 0 else {}), **fields
    )
    return settled(handled(life.coordinator, request, 0))


def commit_code(answer):
    (code,) = settled(answer).values()
    return code


# --- the ten of OffsetConfig


@pytest.mark.parametrize(("count", "partition"), [(50, 34), (3, 1)])
def test_offsets_topic_num_partitions(count, partition):
    life = serving(offsets_topic_num_partitions=count)

    assert life.coordinator.partition_for("consume_group") == partition
    life.commit("consume_group")
    assert len(life.written("consume_group")) == 1


@pytest.mark.parametrize(("codec", "name"), [(0, "NONE"), (1, "GZIP"), (4, "ZSTD")])
def test_offsets_topic_compression_codec(codec, name):
    life = serving(offsets_topic_compression_codec=codec)
    life.commit()

    assert life.batches()[0][0].codec.name == name


def test_offset_metadata_max_bytes():
    life = serving(offset_metadata_max_bytes=10)

    assert commit_code(life.commit(metadata="m" * 10)) is ErrorCode.NONE
    assert commit_code(life.commit(metadata="m" * 11)) is ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.parametrize(("size", "reads"), [(5_000_000, 1), (300, 20)])
def test_offsets_load_buffer_size(monkeypatch, size, reads):
    monkeypatch.setattr(loading, "IN_PLACE_BYTES_MAX", 0)
    offload = Counting()
    life = Life(offload=offload, offsets_load_buffer_size=size)
    for each in range(40):
        life.write(commit_bytes(each, partition=each))
    life.elect()

    assert len(life.fetched()) == 40
    assert offload.runs >= reads
    assert (offload.runs == 1) is (reads == 1)


class Counting(InPlace):
    def __init__(self):
        self.runs = 0

    def run(self, function, /, *args, **kwargs):
        self.runs += 1
        return super().run(function, *args, **kwargs)


def test_offsets_retention_minutes_and_how_often_it_is_looked_at():
    life = serving(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS)
    life.commit()

    life.clock.advance(10 * MINUTE_MS - 1)
    assert life.fetched()
    life.clock.advance(MINUTE_MS)
    assert not life.fetched()


def test_offsets_retention_check_interval_ms():
    life = serving(offsets_retention_minutes=1, offsets_retention_check_interval_ms=30 * MINUTE_MS)
    life.commit()

    life.clock.advance(29 * MINUTE_MS)
    assert life.fetched()
    life.clock.advance(MINUTE_MS)
    assert not life.fetched()


def with_a_follower(**config):
    life = Life(**config)
    for partition in range(2):
        life.lead(partition, epoch=1, isr=(ME, OTHER))
    return life.elect(epoch=1)


def test_offsets_commit_timeout_ms():
    life = with_a_follower(offsets_commit_timeout_ms=700)
    answer = life.commit()

    life.clock.advance(699)
    assert not answer.done
    life.clock.advance(1)
    assert commit_code(answer) is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(("acks", "waits"), [(-1, True), (1, False)])
def test_offsets_commit_required_acks(acks, waits):
    answer = with_a_follower(offsets_commit_required_acks=acks).commit()

    assert (isinstance(answer, Pending) and not answer.done) is waits


# --- groups whose members agree among themselves


def test_group_min_and_max_session_timeout_ms():
    life = serving(group_min_session_timeout_ms=100, group_max_session_timeout_ms=200)
    codes = [ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.NONE, ErrorCode.NONE]

    answers = [join(life, session_ms=session_ms) for session_ms in (99, 100, 200, 201)]
    life.clock.advance(20_000)

    assert [ErrorCode(settled(each).error_code) for each in answers] == [*codes, codes[0]]


@pytest.mark.parametrize("delay_ms", [0, 500])
def test_group_initial_rebalance_delay_ms(delay_ms):
    answer = join(serving_life := serving(group_initial_rebalance_delay_ms=delay_ms))

    if delay_ms:
        serving_life.clock.advance(delay_ms - 1)
        assert not answer.done
    serving_life.clock.advance(1)
    assert settled(answer).generation_id == 1


def test_group_max_size():
    life = serving(group_max_size=2)

    answers = [join(life) for _ in range(3)]
    life.clock.advance(20_000)

    assert [settled(each).error_code for each in answers] == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]


# --- groups that the coordinator assigns


def test_group_coordinator_rebalance_protocols():
    assert code(beat, serving()) is ErrorCode.UNSUPPORTED_VERSION
    assert beat(serving(**BOTH)).member_epoch == 1


def test_group_consumer_session_timeout_ms():
    life = serving(
        **BOTH, group_consumer_session_timeout_ms=1_000, group_consumer_min_session_timeout_ms=1_000
    )
    beat(life)

    life.clock.advance(999)
    assert beat(life, epoch=1).member_epoch == 1
    life.clock.advance(1_000)
    assert code(beat, life, epoch=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_group_consumer_heartbeat_interval_ms():
    life = serving(**BOTH, group_consumer_heartbeat_interval_ms=7_000)

    assert beat(life).heartbeat_interval_ms == 7_000


def test_group_consumer_assignment_interval_ms():
    """KIP-1263; the answers are those of a genuine 4.4.0."""
    life = serving(**BOTH, group_consumer_assignment_interval_ms=1_000)
    beat(life)

    assert beat(life, "another").member_epoch == 1
    life.clock.advance(1_000)
    assert beat(life, "another", epoch=1).member_epoch == 2


@pytest.mark.parametrize("what", ["session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"])
def test_group_consumer_min_and_max_bound_the_value_between_them(what):
    def refused(**values):
        given = {f"group.consumer.{part}{what}": str(value) for part, value in values.items()}
        with pytest.raises(ConfigError, match=f"group.consumer.*{what}"):
            broker_config({key.replace("own.", ""): value for key, value in given.items()})

    refused(**{"min.": 20, "own.": 19, "max.": 30})
    refused(**{"min.": 20, "own.": 31, "max.": 30})
    refused(**{"min.": 20, "own.": 20, "max.": 19})
    broker_config({f"group.consumer.{part}{what}": "20" for part in ("min.", "", "max.")})


def test_group_consumer_max_size():
    life = serving(**BOTH, group_consumer_max_size=1)
    beat(life)

    assert code(beat, life, "another") is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("configured", "default", "unknown"),
    [("range", "range", "uniform"), ("uniform", "uniform", "range"), (RANGE_ASSIGNOR, "range", "uniform")],
)
def test_group_consumer_assignors(configured, default, unknown):
    life = serving(**BOTH, group_consumer_assignors=configured)
    beat(life)

    assert life.consumer_described("g")[0].assignor_name == default
    assert code(beat, life, "another", server_assignor=unknown) is ErrorCode.UNSUPPORTED_ASSIGNOR


@pytest.mark.parametrize(
    ("policy", "lets_in"), [("Upgrade", True), ("downgrade", False), ("disabled", False)]
)
def test_group_consumer_migration_policy(policy, lets_in):
    life = serving(**BOTH, group_consumer_migration_policy=policy)
    join(life)

    if lets_in:
        assert beat(life).member_epoch > 0
    else:
        assert code(beat, life) is ErrorCode.GROUP_ID_NOT_FOUND


# --- all of them


def test_no_key_is_without_a_test_that_names_it():
    """A new key needs a test here, or in the file that looks at how the topic is made."""
    here = {name for name in globals() if name.startswith("test_")}
    elsewhere = {"offsets.topic.replication.factor", "offsets.topic.segment.bytes"}
    together = {
        "group.min.session.timeout.ms": "test_group_min_and_max_session_timeout_ms",
        "group.max.session.timeout.ms": "test_group_min_and_max_session_timeout_ms",
        "offsets.retention.minutes": "test_offsets_retention_minutes_and_how_often_it_is_looked_at",
        **{
            f"group.consumer.{bound}.{what}": "test_group_consumer_min_and_max_bound_the_value_between_them"
            for bound in ("min", "max")
            for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
        },
    }
    keys = {key.name for key in GROUP_KEYS} - elsewhere

    assert {together.get(key, "test_" + key.replace(".", "_")) for key in keys} <= here
