"""Directories, start and shutdown, checkpoints, deletion, disk errors."""

import contextlib
import json

import pytest
from log_world import NOW_MS, TP, World, batch, fill, values_of

from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending
from barnabas.core.topic_config import TOPIC_CONFIG
from barnabas.log import gapless
from barnabas.log.config import LogConfig
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.names import directory_name, partition_of, retired_name

OTHER = TopicPartition("orders", 1)


def test_a_clean_restart(world):
    manager = world.started()
    log = fill(manager.get_or_create(TP, b"1" * 16, is_new=True), 5)
    log.high_watermark = 4
    expected = values_of(log)
    manager.shutdown()

    marker = json.loads(world.disk.read("/data/.kafka_cleanshutdown"))
    assert marker == {"version": 0, "brokerEpoch": -1}
    assert world.disk.read("/data/recovery-point-offset-checkpoint") == b"0\n1\norders 0 5\n"
    assert world.disk.read("/data/replication-offset-checkpoint") == b"0\n1\norders 0 4\n"
    assert world.disk.read("/data/log-start-offset-checkpoint") == b"0\n0\n"
    assert world.disk.read("/data/meta.properties") == b"#\nbroker.id=1\nversion=0\ncluster.id=cluster\n"

    manager = world.started()
    assert not world.disk.exists("/data/.kafka_cleanshutdown"), "from now on it is not clean"
    log = manager.get(TP)
    assert values_of(log) == expected
    assert (log.high_watermark, log.recovery_point, log.topic_id) == (4, 5, b"1" * 16)
    assert manager.get_or_create(TP, b"1" * 16) is log
    assert manager.get(OTHER) is None


def test_the_marker_of_a_clean_stop_does_not_come_back_with_a_loss_of_power():
    for seed in range(8):
        world = World()
        world.disk.rng.seed(seed)
        world.started().shutdown()
        world.started()
        world.disk.crash()
        assert not world.disk.exists("/data/.kafka_cleanshutdown")


def test_the_log_start_survives_with_its_checkpoint(world):
    manager = world.started()
    log = fill(manager.get_or_create(TP), 5)
    log.high_watermark = 5
    log.maybe_increment_log_start_offset(3)
    manager.checkpoint_log_start_offsets()
    manager.checkpoint_high_watermarks()
    manager.shutdown(clean=False)
    log = world.started().get(TP)

    assert (log.log_start_offset, log.high_watermark) == (3, 5)


def test_another_process_holds_the_directory(world):
    manager = world.started()
    with pytest.raises(ConfigError, match=r"/data for configuration log.dirs: Failed to acquire lock"):
        world.started()
    manager.shutdown()
    world.started()


def test_a_directory_of_another_broker_or_cluster(world):
    world.started().shutdown()
    with pytest.raises(ConfigError, match=r"Configured broker.id 2 doesn't match stored broker.id 1"):
        world.manager().start(broker_id=2, cluster_id="cluster").result()
    world = World(world.disk)
    world.disk.crash()
    with pytest.raises(ConfigError, match="doesn't match stored clusterId cluster"):
        world.manager().start(broker_id=1, cluster_id="other").result()


def test_whose_directories_they_are(world):
    assert world.manager().open_directories() is None
    world = World()
    world.started().shutdown()
    assert world.manager().open_directories() == ("cluster", 1)


def test_directories_that_disagree():
    world = World()
    world.started(["/data"]).shutdown()
    manager = world.manager(["/more"])
    manager.start(broker_id=9, cluster_id="cluster").result()
    manager.shutdown()

    with pytest.raises(ConfigError, match="different brokers"):
        world.manager(["/data", "/more"]).open_directories()


@pytest.mark.parametrize("text", [b"version=1\n", b"version=0\nbroker.id=abc\n", b""])
def test_unusable_meta_properties(world, text):
    world.disk.write_atomic("/data/meta.properties", text)
    with pytest.raises(ConfigError, match=r"meta\.properties"):
        world.started()


def test_new_logs_go_where_there_are_fewest():
    world = World()
    manager = world.started(["/data", "/more"])
    for partition in range(4):
        manager.get_or_create(TopicPartition("t", partition))

    for root in ("/data", "/more"):
        assert len([name for name in world.disk.listdir(root) if name.startswith("t-")]) == 2


@pytest.mark.parametrize(
    ("cordoned", "used"),
    [([], {"/data", "/more"}), (["/data"], {"/more"}), (["/data", "/more"], {"/data", "/more"})],
)
def test_a_cordoned_directory_gets_no_new_log_unless_all_are_cordoned(cordoned, used):
    """KIP-1066; where all are, the controller placed the replica before it knew."""
    world = World()
    manager = world.started(["/data", "/more"])
    manager.cordon(["/data", "/more"])
    manager.cordon(cordoned)

    assert {manager.get_or_create(TopicPartition("t", each)).parent_dir for each in range(4)} == used


def test_deletion_renames_at_once_and_removes_later(world):
    manager = world.started()
    log = fill(manager.get_or_create(TP), 3)
    held = log.read(0, 1000).records
    manager.delete(TP)

    assert manager.get(TP) is None
    (name,) = [name for name in world.disk.listdir("/data") if name.endswith("-delete")]
    assert len(name) == len("orders-0.") + 32 + len("-delete")
    assert held.read()
    with pytest.raises(KafkaError) as caught:
        fill(log, 1)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert fill(manager.get_or_create(TP, b"2" * 16), 1).log_end_offset == 1, "the new topic starts empty"
    world.clock.advance(60_000)
    assert not world.disk.exists(f"/data/{name}")
    manager.delete(OTHER)


def test_a_deletion_that_was_interrupted_goes_on(world):
    manager = world.started()
    fill(manager.get_or_create(TP), 3)
    manager.delete(TP)
    manager.shutdown()
    world.started()
    world.clock.advance(60_000)

    assert not [name for name in world.disk.listdir("/data") if name.endswith("-delete")]


def test_strays_are_kept_but_not_served(world):
    manager = world.started()
    fill(manager.get_or_create(TP), 3)
    manager.mark_stray(TP)
    manager.shutdown()
    manager = world.started()
    world.clock.advance(1 << 40)

    assert len(manager.logs) == 0
    assert [name for name in world.disk.listdir("/data") if name.endswith("-stray")]


DAY_MS = 86_400_000


def strays_on(disk):
    return [name for name in disk.listdir("/data") if name.endswith("-stray")]


def test_strays_are_listed_and_go_after_a_delay_that_restarts_do_not_begin_again(world):
    manager = world.started(stray_delete_delay_ms=DAY_MS)
    size = fill(manager.get_or_create(TP), 3).size
    manager.mark_stray(TP)
    (name,) = strays_on(world.disk)
    assert list(manager.strays) == [(TP, f"/data/{name}", size)]
    manager.shutdown()
    world.clock.advance(DAY_MS - 1000)
    manager = world.started(stray_delete_delay_ms=DAY_MS)
    assert list(manager.strays) == [(TP, f"/data/{name}", size)]
    world.clock.advance(999)
    assert strays_on(world.disk) == [name]
    world.clock.advance(1)

    assert strays_on(world.disk) == []
    assert list(manager.strays) == []


def test_a_stray_whose_delay_is_over_goes_with_the_next_start(world):
    manager = world.started(stray_delete_delay_ms=DAY_MS)
    fill(manager.get_or_create(TP), 3)
    manager.mark_stray(TP)
    manager.shutdown()
    world.clock.advance(2 * DAY_MS)
    world.started(stray_delete_delay_ms=DAY_MS)
    world.clock.advance(0)

    assert strays_on(world.disk) == []


def test_a_stray_that_kafka_has_renamed_is_listed_and_kept(world):
    path = f"/data/orders-0.{'c9d8f1e2a3b44c5d8e9f0a1b2c3d4e5f'}-stray"
    world.disk.mkdir(path)
    world.disk.open(f"{path}/00000000000000000000.log", create=True).pwrite(b"x" * 100, 0)
    manager = world.started(stray_delete_delay_ms=DAY_MS)
    world.clock.advance(100 * DAY_MS)

    assert list(manager.strays) == [(TP, path, 100)]


def test_a_partition_that_comes_back_begins_beside_its_stray(world):
    manager = world.started(stray_delete_delay_ms=DAY_MS)
    fill(manager.get_or_create(TP), 3)
    manager.mark_stray(TP)
    log = fill(manager.get_or_create(TP), 1)
    manager.mark_stray(TP)
    again = fill(manager.get_or_create(TP), 2)

    assert (log.log_end_offset, again.log_end_offset) == (1, 2)
    assert len(list(manager.strays)) == 2


def test_names():
    long = TopicPartition("x" * 249, 12)
    unique = "0" * 32

    assert directory_name(TP) == "orders-0"
    assert partition_of("a-b-3") == ("a-b", 3)
    assert partition_of("orders") is partition_of("orders-x") is partition_of("-1") is None
    assert retired_name(TP, unique, "-delete") == f"orders-0.{unique}-delete"
    assert len(retired_name(long, unique, "-delete")) == 255
    assert retired_name(long, unique, "-delete").endswith(f"x-12.{unique}-delete")


@pytest.mark.parametrize(
    "name",
    ["a b-1", "a\nb-1", "..-0", "\udcff-0", "é-0", "x" * 250 + "-0", "a-01", "a-+1", "a-1_0", "a-2147483648"],
)
def test_a_directory_that_no_topic_could_have_is_no_partition(name):
    assert partition_of(name) is None


def test_what_lies_about_in_the_directories_costs_nothing(world):
    """A name with a space or a byte that is not UTF-8 would spoil the checkpoints of all partitions."""
    manager = world.started()
    fill(manager.get_or_create(TP), 3).high_watermark = 3
    manager.shutdown()
    for name in ("a b-1", "a\nb-1", "\udcff-0", "orders-00"):
        world.disk.mkdir(f"/data/{name}")
    for name in ("15.log", "0.log", "99999999999999999999.log", "99999999999999999999.snapshot"):
        world.disk.write_atomic(f"/data/{TP}/{name}", b"")
    for _ in range(2):
        manager = world.started()
        assert list(manager.logs) == [TP]
        assert manager.get(TP).log_end_offset == 3
        assert manager.get(TP).high_watermark == 3
        manager.checkpoint_high_watermarks()
        manager.shutdown()


def test_foreign_files_are_left_alone(world):
    world.disk.write_atomic("/data/notes-7", b"a file")
    world.disk.mkdir("/data/backup")
    manager = world.started()
    manager.shutdown()

    assert len(manager.logs) == 0
    assert world.disk.read("/data/notes-7") == b"a file"


@pytest.mark.parametrize("chosen", ["/data", "/other"])
def test_the_directory_of_choice_of_a_log_that_is_made_again(world, chosen):
    """It is remembered where the log lies elsewhere; else the directory with the fewest logs has it."""
    world.disk.mkdir("/other")
    manager = world.started(["/data", "/other"])
    manager.prefer(TP, "/data")
    assert manager.get_or_create(TP).parent_dir == "/data"
    for partition in (1, 2):
        manager.prefer(TopicPartition("orders", partition), chosen)
        manager.get_or_create(TopicPartition("orders", partition))
    manager.prefer(TP, chosen)
    manager.delete(TP)

    assert manager.get_or_create(TP).parent_dir == "/other"


class TestDiskErrors:
    @pytest.mark.parametrize("directories", [["/data"], ["/data", "/other"]])
    def test_a_directory_that_the_start_cannot_use_is_told_where_there_is_another(self, directories, caplog):
        world = World()
        world.disk.mkdir("/other")
        world.disk.fail("/data", "name")
        manager = world.manager(directories)
        outcome = manager.start(broker_id=1, cluster_id="cluster")

        assert (outcome.error is None) is ("/other" in directories)
        told = [each.message for each in caplog.records if "directory.offline" in each.message]
        assert len(told) == len(directories) - 1, "a start that fails says why itself"

    def test_the_last_directory_that_fails_is_told_too(self, world, caplog):
        manager = world.started()
        log = manager.get_or_create(TP)
        world.disk.fail("/data")
        with pytest.raises(KafkaError):
            fill(log, 1)

        assert manager.offline_directories == ["/data"]
        assert [each.message.split()[0] for each in caplog.records if each.levelname == "ERROR"] == [
            "log.offline",
            "directory.offline",
        ]

    @pytest.mark.parametrize(("topic", "partition"), [("x" * 249, 100_000), ("é" * 127, 0)])
    def test_a_name_that_no_disk_has_room_for_takes_no_directory_offline(self, topic, partition):
        """One LeaderAndIsr with such a partition ended the broker: its only directory went offline."""
        manager = World().started()
        with pytest.raises(KafkaError, match="more than 255 bytes") as caught:
            manager.get_or_create(TopicPartition(topic, partition), is_new=True)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert manager.offline_directories == []
        assert manager.get_or_create(TopicPartition("x" * 249, 9_999), is_new=True)

    def test_one_directory_fails_and_the_other_serves(self):
        world = World()
        offline = []
        manager = world.started(["/data", "/more"], on_offline=offline.append)
        logs = [manager.get_or_create(TopicPartition("t", number)) for number in range(4)]
        world.disk.fail("/data")
        bad = [log for log in logs if log.directory.startswith("/data")]
        good = [log for log in logs if log.directory.startswith("/more")]

        with pytest.raises(KafkaError) as caught:
            fill(bad[0], 1)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert offline == manager.offline_directories == ["/data"]
        assert manager.online_directories == ["/more"]
        assert [manager.get(log.tp) for log in bad] == [None, None]
        with pytest.raises(KafkaError) as caught:
            fill(bad[1], 1)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert fill(good[0], 3).log_end_offset == 3

        fresh = TopicPartition("new", 0)
        with pytest.raises(KafkaError, match="Can not create log") as caught:
            manager.get_or_create(fresh)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert manager.get_or_create(fresh, is_new=True).directory == "/more/new-0"
        world.disk.heal()
        manager.shutdown()
        assert world.disk.exists("/more/.kafka_cleanshutdown")
        assert not world.disk.exists("/data/.kafka_cleanshutdown")

    @pytest.mark.parametrize("order", [["/data", "/data/inner"], ["/data/inner", "/data"]])
    def test_of_nested_directories_only_the_one_that_fails_goes(self, order):
        world = World()
        manager = world.started(order)
        logs = [manager.get_or_create(TopicPartition("t", number)) for number in range(2)]
        world.disk.fail("/data/inner")
        for log in logs:
            with contextlib.suppress(KafkaError):
                fill(log, 1)
        assert (manager.online_directories, manager.offline_directories) == (["/data"], ["/data/inner"])

    def test_a_directory_that_fails_at_start(self):
        world = World()
        world.disk.fail("/data", "name")
        manager = world.started(["/data", "/more"])
        assert manager.online_directories == ["/more"]

    def test_without_any_directory_there_is_no_start(self):
        world = World()
        world.disk.fail("/data", "name")
        with pytest.raises(ConfigError, match="none of the specified log dirs"):
            world.started()

    def test_a_checkpoint_that_cannot_be_written(self, world):
        manager = world.started()
        manager.get_or_create(TP)
        world.disk.fail("/data/recovery")
        manager.checkpoint_recovery_points()
        assert manager.offline_directories == ["/data"]

    def test_an_unreadable_checkpoint_costs_a_recovery_only(self, world):
        manager = world.started()
        fill(manager.get_or_create(TP), 5)
        manager.shutdown()
        world.disk.write_atomic("/data/recovery-point-offset-checkpoint", b"nonsense")
        assert world.started().get(TP).log_end_offset == 5


class TestMaintenance:
    def test_retention_on_a_disk_that_cannot_be_read(self):
        world = World(segment_bytes=300, retention_ms=1000)
        manager = world.started()
        fill(manager.get_or_create(TP), 5, 2)
        manager.shutdown()
        offline = []
        manager = world.started(on_offline=offline.append)
        manager.get(TP).high_watermark = 10
        world.disk.fail("/data/orders-0", "read")

        assert manager.clean_up() == 0
        assert offline == ["/data"]

    def test_retention_over_all_logs(self):
        world = World(segment_bytes=300, retention_ms=1000)
        manager = world.started()
        for tp in (TP, OTHER):
            log = fill(manager.get_or_create(tp), 5, 2)
            log.high_watermark = 10
        assert manager.clean_up() == 0
        world.clock.advance(1003)
        deleted = manager.clean_up()

        assert deleted >= 4
        assert [log.log_start_offset for log in manager] == [10, 10]
        files = world.disk.listdir("/data/orders-0")
        assert [name for name in files if name.endswith(".log.deleted")]
        world.clock.advance(60_000)
        files = world.disk.listdir("/data/orders-0")
        assert [name for name in files if name.endswith(".deleted")] == [gapless.FILE_NAME]

    def test_flush_by_time(self):
        world = World(flush_ms=1000)
        manager = world.started()
        log = fill(manager.get_or_create(TP), 3)
        world.clock.advance(1000)
        manager.flush_by_time()
        world.clock.advance()
        assert log.recovery_point == 3
        manager.checkpoint_recovery_points()
        assert world.disk.read("/data/recovery-point-offset-checkpoint") == b"0\n1\norders 0 3\n"

    def test_expiry_of_producers(self, world):
        manager = world.started(producer_expiration_ms=500)
        log = manager.get_or_create(TP)
        log.append(batch(producer_id=3, producer_epoch=0, base_sequence=0), 0, NOW_MS)
        assert manager.expire_producers() == 0
        world.clock.advance(500)
        assert manager.expire_producers() == 1

    def test_a_new_configuration_reaches_the_logs(self, world):
        manager = world.started()
        log = manager.get_or_create(TP)
        world.config = type(world.config)(max_message_bytes=10)
        manager.reconfigure("elsewhere")
        fill(log, 1)
        manager.reconfigure("orders")
        with pytest.raises(KafkaError) as caught:
            fill(log, 1)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_large_recoveries_go_through_the_offload(world):
    calls = []

    class Counting:
        def run(self, function, /, *args, **kwargs):
            calls.append(function.__name__)
            return Pending.of(function(*args, **kwargs))

    manager = world.started()
    fill(manager.get_or_create(TP), 3, size=500_000)
    fill(manager.get_or_create(OTHER), 3)
    manager.shutdown(clean=False)
    manager = world.manager(offload=Counting())
    manager.start(broker_id=1, cluster_id="cluster").result()

    assert calls == ["recover_log"]
    assert [log.log_end_offset for log in manager] == [3, 3]


def test_on_a_real_disk(tmp_path):
    world = World(OsFilesystem(), str(tmp_path), segment_bytes=1000)
    manager = world.started()
    log = fill(manager.get_or_create(TP, b"1" * 16), 50, 2)
    expected = values_of(log)
    assert [offset for offset, _ in expected] == list(range(100))
    manager.shutdown()
    assert (tmp_path / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"

    manager = world.started()
    assert values_of(manager.get(TP)) == expected
    manager.shutdown(clean=False)
    manager = world.started()
    assert values_of(manager.get(TP)) == expected
    manager.delete(TP)
    world.clock.advance(60_000)
    manager.shutdown()
    assert not list(tmp_path.glob("orders*"))


class TestDamagedFiles:
    """Damage to files after a clean stop: never more than one partition suffers."""

    def stopped(self, *, clean=True, count=30, **config):
        """A world with two partitions on its disk, and what the first one held."""
        world = World(segment_bytes=500, index_interval_bytes=150, **config)
        manager = world.started()
        for tp in (TP, OTHER):
            log = manager.get_or_create(tp, b"1" * 16, is_new=True)
            for epoch in (0, 3, 8):
                fill(log, count // 3, epoch=epoch)
            log.high_watermark = count
        expected = values_of(manager.get(TP))
        manager.shutdown(clean=clean)
        return world, expected

    @pytest.mark.parametrize("clean", [True, False])
    @pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
    @pytest.mark.parametrize("garbage", [b"\xff\0garbage\n\n7", b"version: 0\ntopic_id: a: b: c"])
    def test_one_garbage_file_keeps_nobody_from_starting(self, clean, name, garbage, caplog):
        world, expected = self.stopped(clean=clean)
        world.disk.write_atomic(f"/data/orders-0/{name}", garbage)
        manager = world.started()

        assert values_of(manager.get(TP)) == expected
        assert manager.get(TP).leader_epochs.entries == ((0, 0), (3, 10), (8, 20)), "as the batches tell"
        assert manager.get_or_create(TP, b"1" * 16).topic_id == b"1" * 16, "the controller tells it again"
        assert manager.get(OTHER).log_end_offset == 30
        assert [record.levelname for record in caplog.records if name in record.message] == ["WARNING"] * (
            1 + clean
        )

    def test_what_cannot_be_repaired_is_not_served_and_nothing_empty_takes_its_place(
        self, caplog, monkeypatch
    ):
        monkeypatch.setattr("barnabas.log.loading.IN_PLACE_SCAN_BYTES", 0)
        world, _ = self.stopped()
        world.disk.remove("/data/orders-0/leader-epoch-checkpoint")
        bases = [name for name in world.disk.listdir("/data/orders-0") if name.endswith(".log")]

        class Broken:
            def run(self, function, /, *args, **kwargs):
                return Pending.failed(KafkaError(ErrorCode.CORRUPT_MESSAGE))

        world.disk.open(f"/data/orders-0/{bases[-1]}").truncate(10)
        manager = world.manager(["/data", "/more"], offload=Broken())
        manager.start(broker_id=1, cluster_id="cluster").result()

        assert manager.get(TP) is None
        assert manager.get(OTHER).log_end_offset == 30
        with pytest.raises(KafkaError, match="damaged") as caught:
            manager.get_or_create(TP)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert manager.offline_directories == []
        assert [record.message.split()[0] for record in caplog.records if record.levelname == "ERROR"] == [
            "log.unusable"
        ]

    def test_a_directory_that_vanished_is_told_once_the_partition_is_made_again(self, caplog):
        world, _ = self.stopped()
        world.disk.remove_tree("/data/orders-0")
        manager = world.started()
        assert caplog.records == []
        assert manager.get_or_create(TP).log_end_offset == 0
        manager.delete(TP)
        manager.get_or_create(TP, is_new=True)

        (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
        assert record.message == "log.vanished partition=orders-0 directory=/data/orders-0"

    def test_a_partition_without_records_had_nothing_that_could_vanish(self, caplog):
        world = World()
        manager = world.started()
        manager.get_or_create(TP, is_new=True)
        manager.shutdown()
        world.disk.remove_tree("/data/orders-0")
        world.started().get_or_create(TP)

        assert caplog.records == []

    def test_a_partition_that_was_deleted_since_the_start_has_not_vanished(self, caplog):
        world, _ = self.stopped()
        manager = world.started()
        manager.delete(TP)
        manager.get_or_create(TP)

        assert caplog.records == []

    def test_a_partition_that_moves_to_a_directory_that_is_read_first_has_not_vanished(self, caplog):
        world = World()
        manager = world.started(["/data"])
        fill(manager.get_or_create(TP), 3).high_watermark = 3
        manager.shutdown()
        world.disk.mkdir("/first")
        manager = world.started(["/first", "/data"])
        future = manager.create_future(TP, "/first")
        future.append_as_follower(manager.get(TP).read(0, 1 << 20).records.read(), NOW_MS)
        future.high_watermark = 3
        manager.shutdown()
        manager = world.started(["/first", "/data"])
        manager.delete(TP)
        manager.get_or_create(TP)

        assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []

    def test_a_new_partition_of_an_old_name_has_not_vanished(self, caplog):
        world, _ = self.stopped()
        world.disk.remove_tree("/data/orders-0")
        world.started().get_or_create(TP, is_new=True)

        assert caplog.records == []


class TestRecoveryPoints:
    """A broker that is killed over and over must not scan the same segments each time."""

    @pytest.fixture(autouse=True)
    def all_by_the_offload(self, monkeypatch):
        monkeypatch.setattr("barnabas.log.loading.IN_PLACE_SCAN_BYTES", 0)

    def test_they_are_written_when_a_start_has_recovered(self):
        world = World(segment_bytes=500)
        manager = world.started()
        for tp in (TP, OTHER):
            fill(manager.get_or_create(tp), 30)
        manager.shutdown(clean=False)
        assert not world.disk.exists("/data/recovery-point-offset-checkpoint")
        world.started().shutdown(clean=False)

        assert (
            world.disk.read("/data/recovery-point-offset-checkpoint") == b"0\n2\norders 0 30\norders 1 30\n"
        )
        recovered = self.scanned_by_a_start(world)
        assert recovered == [("orders-0", 1), ("orders-1", 1)], "the last segments only"

    def scanned_by_a_start(self, world):
        scanned = []

        class Counting(InPlace):
            def run(self, function, filesystem, path, tp, **options):
                scanned.append((str(tp), len(options["targets"])))
                return super().run(function, filesystem, path, tp, **options)

        world.started(offload=Counting()).shutdown(clean=False)
        return scanned

    def test_they_are_written_while_a_long_start_recovers(self, monkeypatch):
        monkeypatch.setattr("barnabas.log.start.CHECKPOINT_AFTER_BYTES", 1000)
        world = World(segment_bytes=500)
        manager = world.started()
        for tp in (TP, OTHER):
            fill(manager.get_or_create(tp), 30)
        manager.shutdown(clean=False)
        world.disk.write_atomic("/data/recovery-point-offset-checkpoint", b"0\n1\norders 1 3\n")

        class KilledAtTheSecond(InPlace):
            def run(self, function, filesystem, path, tp, **options):
                if tp == OTHER:
                    raise KeyboardInterrupt
                return super().run(function, filesystem, path, tp, **options)

        with pytest.raises(KeyboardInterrupt):
            world.started(offload=KilledAtTheSecond())

        written = world.disk.read("/data/recovery-point-offset-checkpoint")
        assert sorted(written.splitlines()) == [b"0", b"2", b"orders 0 30", b"orders 1 3"]

    def test_a_start_that_recovers_nothing_writes_nothing(self, world):
        manager = world.started()
        fill(manager.get_or_create(TP), 3)
        manager.shutdown()
        written = world.disk.modified_ms("/data/recovery-point-offset-checkpoint")
        world.clock.advance(1000)
        world.started()

        assert world.disk.modified_ms("/data/recovery-point-offset-checkpoint") == written


def test_what_a_topic_does_not_say_has_kafkas_default():
    """The log's own defaults are the table's: one that is made without a table behaves as one with."""
    assert LogConfig.from_values(TOPIC_CONFIG.parse({})) == LogConfig()
