"""What is deleted leaves the disk later, elsewhere, and in portions; a thread in a broker."""

import errno

import pytest
from log_world import TP, World, fill

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending
from barnabas.log.removal import AGAIN_MS, PORTION

DELAY_MS = 60_000
MANY = 3 * PORTION + 1


class LaterThread:
    """Work that is done when a test says so, as if by a thread."""

    def __init__(self):
        self.given = []

    def run(self, function, /, *args, **kwargs):
        self.given.append((Pending(), function, args, kwargs))
        return self.given[-1][0]

    def finish(self):
        outcome, function, args, kwargs = self.given.pop(0)
        done = InPlace().run(function, *args, **kwargs)
        outcome.end_as(done)


class LaterSyncer:
    """Syncs that are made when a test says so."""

    def __init__(self):
        self.given = []

    def sync(self, files):
        self.given.append((Pending(), files))
        return self.given[-1][0]

    def finish(self):
        outcome, files = self.given.pop(0)
        try:
            for file in files:
                file.sync()
        except OSError as error:
            outcome.fail(error)
        else:
            outcome.complete(None)


@pytest.fixture
def world():
    return World(segment_index_bytes=4096)


def retired(world, root="/data"):
    return [name for name in world.disk.listdir(root) if name.endswith("-delete")]


def made(manager, count):
    partitions = [TopicPartition("t", number) for number in range(count)]
    for tp in partitions:
        manager.get_or_create(tp)
    return partitions


def test_many_directories_that_are_due_together_are_removed_elsewhere_a_portion_at_a_time(world):
    thread = LaterThread()
    manager = world.started(disk_thread=thread)
    for tp in made(manager, MANY):
        manager.delete(tp)
    world.clock.advance(DELAY_MS - 1)
    assert not thread.given
    world.clock.advance(1)

    world.disk.open("/data/more", create=True)
    manager.remove_files_later(["/data/more"], 0)
    world.clock.advance(0)
    left = MANY
    while left:
        assert len(thread.given) == 1, "one portion after the other"
        assert len(retired(world)) == left, "nothing is removed by the loop itself"
        thread.finish()
        left = max(0, left - PORTION)
        assert len(retired(world)) == left
        world.clock.advance(0)
    while thread.given:
        thread.finish()
        world.clock.advance(0)
    assert not world.disk.exists("/data/more")


def test_a_deleted_topic_may_be_made_again_before_its_directories_are_gone(world):
    thread = LaterThread()
    manager = world.started(disk_thread=thread)
    for _ in range(3):
        fill(manager.get_or_create(TP), 2)
        manager.delete(TP)
    log = fill(manager.get_or_create(TP), 1)
    world.clock.advance(DELAY_MS)
    thread.finish()

    assert retired(world) == []
    assert fill(log, 1).log_end_offset == 2
    assert world.disk.exists(f"/data/{TP}")


def test_what_is_due_first_goes_first(world):
    manager = world.started()
    world.disk.open("/data/late", create=True)
    world.disk.open("/data/early", create=True)
    manager.remove_files_later(["/data/late"], 500)
    manager.remove_files_later(["/data/early"], 100)

    world.clock.advance(100)
    assert world.disk.exists("/data/late")
    assert not world.disk.exists("/data/early")
    world.clock.advance(400)
    assert not world.disk.exists("/data/late")


def test_a_death_in_the_middle_leaves_the_rest_to_the_next_start(world):
    thread = LaterThread()
    manager = world.started(disk_thread=thread)
    for tp in made(manager, MANY):
        manager.delete(tp)
    world.clock.advance(DELAY_MS)
    thread.finish()
    world.disk.release_locks()  # kill -9

    world.started()
    assert len(retired(world)) == MANY - PORTION
    world.clock.advance(DELAY_MS)
    assert retired(world) == []


def test_a_directory_that_cannot_be_removed_takes_its_disk_offline_and_no_other():
    world = World(root="/a", segment_index_bytes=4096)
    world.disk.mkdir("/b")
    offline = []
    manager = world.started(["/a", "/b"], on_offline=offline.append)
    for tp in made(manager, 4):
        manager.delete(tp)
    assert len(retired(world, "/a")) == len(retired(world, "/b")) == 2
    world.disk.fail("/a", "name")
    world.clock.advance(DELAY_MS)

    assert (offline, manager.offline_directories) == (["/a"], ["/a"])
    assert retired(world, "/b") == []


def test_a_removal_waits_for_descriptors(world):
    manager = world.started()
    made(manager, 1)
    manager.delete(TopicPartition("t", 0))
    world.disk.fail("/data/t-0", "name", errno.EMFILE)
    world.disk.fail("/data/t-0.", "name", errno.EMFILE)
    world.clock.advance(DELAY_MS)
    assert len(retired(world)) == 1
    world.disk.heal()
    world.clock.advance(AGAIN_MS)

    assert retired(world) == []
    assert manager.offline_directories == []


def test_a_broker_that_stops_begins_no_removal(world):
    thread = LaterThread()
    manager = world.started(disk_thread=thread)
    for tp in made(manager, 2):
        manager.delete(tp)
    manager.shutdown()
    world.clock.advance(DELAY_MS)

    assert not thread.given
    assert len(retired(world)) == 2


def test_the_names_of_all_that_is_deleted_together_are_made_durable_by_one_sync(world):
    syncer = LaterSyncer()
    manager = world.started(syncer=syncer)
    deletions = [manager.delete(tp) for tp in made(manager, MANY)]
    world.clock.advance(0)

    assert len(syncer.given) == 1
    assert not any(each.done for each in deletions)
    syncer.finish()
    assert [each.result() for each in deletions] == [None] * MANY
    world.disk.crash()
    world.started()
    assert len(retired(world)) == MANY, "a loss of power brings none of them back"


def test_a_deletion_that_cannot_be_made_durable_says_so(world):
    manager = world.started()
    (tp,) = made(manager, 1)
    world.disk.fail("/data", "sync")
    deletion = manager.delete(tp)
    world.clock.advance(0)

    with pytest.raises(KafkaError) as caught:
        deletion.result()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.offline_directories == ["/data"]
