"""One contract for every filesystem, the real one and the simulated one."""

import errno
import os
import tracemalloc

import pytest

from barnabas.core.chunks import FileSlice
from barnabas.log.filesystem import IOV_MAX, LockedError, OsFilesystem
from barnabas.testing.disk import SimulatedFilesystem


@pytest.fixture(params=["os", "simulated"])
def disk(request, tmp_path):
    """A filesystem and a directory in it."""
    if request.param == "os":
        return OsFilesystem(), str(tmp_path)
    filesystem = SimulatedFilesystem()
    filesystem.mkdir("/disk/here")
    return filesystem, "/disk/here"


def test_what_is_free_is_part_of_the_disk(disk):
    filesystem, root = disk
    total, usable = filesystem.space(root)

    assert 0 < usable <= total
    with pytest.raises(FileNotFoundError):
        filesystem.space(f"{root}/nowhere")


def test_files_are_written_in_place(disk):
    filesystem, root = disk
    file = filesystem.open(f"{root}/a", create=True)
    file.pwrite(b"hello world", 0)
    file.pwrite(memoryview(b"W"), 6)
    file.pwrite(bytearray(b"!"), 13)

    assert file.pread(100, 0) == b"hello World\0\0!"
    assert file.pread(5, 6) == b"World"
    assert file.pread(5, 100) == b""
    assert file.size() == filesystem.size(f"{root}/a") == 14
    file.truncate(5)
    assert filesystem.read(f"{root}/a") == b"hello"
    file.truncate(7)
    assert filesystem.read(f"{root}/a") == b"hello\0\0"
    file.sync()


def test_a_hole_at_the_end_of_a_file_reads_as_zeros_and_takes_no_memory():
    disk = SimulatedFilesystem()
    disk.mkdir("/d")
    tracemalloc.start()
    try:
        files = [disk.open(f"/d/{number}", create=True) for number in range(20)]
        for file in files:
            file.truncate(10 << 20)
            file.sync()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    file.pwrite(b"x", 5)
    file.sync()
    disk.sync_directory("/d")
    disk.crash()

    assert peak < 1 << 20
    assert disk.size("/d/19") == 10 << 20
    assert file.pread(4, 4) == b"\0x\0\0"
    assert disk.open("/d/19").pread(8, (10 << 20) - 4) == bytes(4)


def test_several_buffers_are_written_one_behind_the_other(disk):
    filesystem, root = disk
    file = filesystem.open(f"{root}/a", create=True)
    file.pwrite(b"....", 0)
    file.pwritev([b"ab", memoryview(b"-cd-")[1:3], bytearray(b""), bytearray(b"e")], 2)
    file.pwritev([b"%04d" % number for number in range(IOV_MAX)], 7)

    assert filesystem.read(f"{root}/a") == b"..abcde" + b"".join(
        b"%04d" % number for number in range(IOV_MAX)
    )


def test_a_vector_is_no_longer_than_the_system_takes(disk):
    filesystem, root = disk
    file = filesystem.open(f"{root}/a", create=True)

    with pytest.raises(OSError, match="Invalid argument"):
        file.pwritev([b"x"] * (IOV_MAX + 1), 0)


def test_a_system_that_takes_a_part_of_a_vector_is_given_the_rest(tmp_path, monkeypatch):
    pwritev, pwrite = os.pwritev, os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: pwritev(fd, [b"".join(buffers)[:4]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    file = OsFilesystem().open(f"{tmp_path}/a", create=True)

    file.pwritev([b"abc", b"defg", b"hij"], 1)

    assert file.pread(20, 0) == b"\0abcdefghij"


def test_what_is_said_to_be_synced_has_been_given_to_the_system(tmp_path, monkeypatch):
    """No test can take the power away, so this one asks which files the system was told to write."""
    synced, sizes = [], []
    for name in ("fsync", "fdatasync"):
        call = getattr(os, name)

        def note(fd, call=call):
            synced.append(os.fstat(fd).st_ino)
            sizes.append(os.fstat(fd).st_size)
            call(fd)

        monkeypatch.setattr(os, name, note)
    filesystem, path, parent = OsFilesystem(), tmp_path / "a", tmp_path.stat().st_ino

    filesystem.write_atomic(str(path), b"not yet", sync=False)
    assert synced == []
    filesystem.write_atomic(str(path), b"now")
    assert synced == [path.stat().st_ino, parent], "the name lasts no longer than the directory"
    assert sizes[0] == len(b"now"), "all of it had left the process by then"
    filesystem.open(str(path)).sync()
    filesystem.sync_directory(str(tmp_path))
    assert synced[2:] == [path.stat().st_ino, parent]


def test_opening_what_is_not_there(disk):
    filesystem, root = disk

    for action in (
        filesystem.open,
        filesystem.size,
        filesystem.read,
        filesystem.modified_ms,
        filesystem.listdir,
    ):
        with pytest.raises(FileNotFoundError):
            action(f"{root}/missing")
    with pytest.raises(FileNotFoundError):
        filesystem.open(f"{root}/missing/a", create=True)
    assert not filesystem.exists(f"{root}/missing")


def test_opening_twice_is_one_file(disk):
    filesystem, root = disk
    one = filesystem.open(f"{root}/a", create=True)
    two = filesystem.open(f"{root}/a", create=True)
    one.pwrite(b"x", 0)

    assert two.pread(1, 0) == b"x"


def test_an_open_file_outlives_its_name(disk):
    filesystem, root = disk
    filesystem.write_atomic(f"{root}/a", b"content")
    held = FileSlice(filesystem.open(f"{root}/a"), 0, 7)
    filesystem.rename(f"{root}/a", f"{root}/b")
    filesystem.remove(f"{root}/b")

    assert held.read() == b"content"
    assert not filesystem.exists(f"{root}/b")


def test_directories(disk):
    filesystem, root = disk
    filesystem.mkdir(f"{root}/one/two")
    filesystem.mkdir(f"{root}/one/two")
    filesystem.write_atomic(f"{root}/one/file", b"", sync=False)

    assert filesystem.listdir(f"{root}/one") == ["file", "two"]
    assert filesystem.is_directory(f"{root}/one/two")
    assert not filesystem.is_directory(f"{root}/one/file")
    filesystem.rename(f"{root}/one", f"{root}/other")
    assert filesystem.listdir(root) == ["other"]
    assert filesystem.read(f"{root}/other/file") == b""
    filesystem.sync_directory(f"{root}/other")
    filesystem.remove_tree(f"{root}/other")
    filesystem.remove_tree(f"{root}/other")
    assert filesystem.listdir(root) == []


@pytest.mark.parametrize("sync", [True, False])
def test_atomic_replacement(disk, sync):
    filesystem, root = disk
    for content in (b"old and long", b"new"):
        filesystem.write_atomic(f"{root}/file", content, sync=sync)

    assert filesystem.read(f"{root}/file") == b"new"
    assert filesystem.listdir(root) == ["file"]
    assert filesystem.modified_ms(f"{root}/file") > 0
    filesystem.remove(f"{root}/file")
    filesystem.remove(f"{root}/file")


def test_a_replacement_that_fails_leaves_nothing_behind(disk):
    filesystem, root = disk
    with pytest.raises(OSError, match=r"missing|No such file"):
        filesystem.write_atomic(f"{root}/missing/file", b"content")

    assert filesystem.listdir(root) == []


def test_a_name_that_cannot_be_replaced_stays_and_nothing_lies_beside_it(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        OsFilesystem().write_atomic(f"{tmp_path}/file", b"content")

    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_time_of_a_file_is_what_it_was_set_to(disk):
    filesystem, root = disk
    filesystem.write_atomic(f"{root}/file", b"")
    filesystem.set_modified_ms(f"{root}/file", 1_700_000_000_123)
    assert filesystem.modified_ms(f"{root}/file") == 1_700_000_000_123


def test_locks_exclude(disk):
    filesystem, root = disk
    lock = filesystem.lock(f"{root}/.lock")
    with pytest.raises(LockedError, match="locked"):
        filesystem.lock(f"{root}/.lock")
    lock.release()
    lock.release()

    filesystem.lock(f"{root}/.lock").release()


def test_descriptors_close_with_their_last_reference(tmp_path):
    import os

    file = OsFilesystem().open(str(tmp_path / "a"), create=True)
    descriptor = file.fileno()
    os.fstat(descriptor)
    del file

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_process_with_a_record_lock_is_respected(tmp_path):
    # A JVM broker takes a POSIX record lock, which only another process can tell from its own.
    import subprocess
    import sys

    path = str(tmp_path / ".lock")
    script = (
        "import fcntl, sys\n"
        f"file = open({path!r}, 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LockedError):
            OsFilesystem().lock(path)
        holder.stdin.close()
    OsFilesystem().lock(path).release()


class TestFaults:
    """What only the simulated disk does."""

    def test_a_crash_loses_what_was_not_synced(self):
        survivors = set()
        for seed in range(40):
            disk = SimulatedFilesystem(seed=seed)
            disk.mkdir("/d")
            file = disk.open("/d/a", create=True)
            file.pwrite(b"durable", 0)
            file.sync()
            disk.sync_directory("/d")
            file.pwrite(b"12345678", 7)
            file.pwrite(b"abcdefgh", 15)
            disk.crash()
            survivors.add(disk.read("/d/a"))

        assert all(content.startswith(b"durable") for content in survivors)
        assert all(b"durable12345678abcdefgh".startswith(content) for content in survivors)
        assert {b"durable", b"durable12345678"} < survivors
        assert len(survivors) > 4, "writes are torn as well"

    def test_a_crash_loses_names_that_were_not_synced(self):
        outcomes = set()
        for seed in range(20):
            disk = SimulatedFilesystem(seed=seed)
            disk.mkdir("/d")
            disk.open("/d/a", create=True).sync()
            disk.crash()
            outcomes.add(disk.exists("/d/a"))

        assert outcomes == {True, False}

    def test_a_synced_replacement_survives(self):
        for seed in range(20):
            disk = SimulatedFilesystem(seed=seed)
            disk.mkdir("/d")
            disk.write_atomic("/d/a", b"old")
            disk.write_atomic("/d/a", b"new")
            disk.crash()

            assert disk.read("/d/a") == b"new"

    def test_a_full_disk_takes_what_fits(self):
        disk = SimulatedFilesystem(capacity=8192)
        disk.mkdir("/d")
        file = disk.open("/d/a", create=True)
        file.truncate(1 << 20)
        file.pwrite(b"x" * 5000, 0)

        with pytest.raises(OSError, match="No space") as caught:
            file.pwrite(b"y" * 5000, 5000)
        assert caught.value.errno == errno.ENOSPC
        assert file.pread(10, 8190) == b"yy" + bytes(8), "a hole takes no room, and two bytes fitted"
        file.truncate(0)
        file.pwrite(b"z" * 8192, 0)

    def test_failures_by_place_and_operation(self):
        disk = SimulatedFilesystem()
        disk.mkdir("/d")
        file = disk.open("/d/a", create=True)
        disk.fail("/d/a", "sync")
        file.pwrite(b"x", 0)
        with pytest.raises(OSError, match="simulated"):
            file.sync()
        disk.heal()
        file.sync()

        assert disk.syncs == 1
