"""A store or a disk that stops the start: one line that names it and says what to do, and an exit code."""

import errno
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import broker_forks
from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.cluster.store import sqlite_failures
from barnabas.cluster.store.sqlite_table import Database

SERVE = [sys.executable, "-m", "barnabas", "serve", "--port", "0"]

# Everybody may do this in a namespace of his own: a disk of one megabyte, filled but for so many kilobytes.
ON_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size=1m tmpfs "$0"
if [ -e "$0.before" ]; then cp -a "$0.before/." "$0"; fi
dd if=/dev/zero of="$0/filler" bs=1k count=$((1024 - $1 - $(du -sk "$0" | cut -f1))) status=none
shift
exec "$@"
"""


def start(*options, command=()):
    """How a broker ended that could not start. One that begins in no surroundings of its own is a fork."""
    if command:
        return subprocess.run(
            [*command, *SERVE, *map(str, options)], capture_output=True, text=True, timeout=30, check=False
        )
    with tempfile.TemporaryFile() as errors:
        process = broker_forks.start(["serve", "--port", "0", *map(str, options)], errors)
        try:
            code = process.wait(30)
        finally:
            process.kill()
        with process.stdout:
            out = process.stdout.read()
        errors.seek(0)
        return subprocess.CompletedProcess(options, code, out.decode(), errors.read().decode())


def one_line(result):
    assert result.returncode == 1, result.stdout
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def on_a_small_disk(disk, free_kb, *options):
    """Starts a broker while the directory `disk` is a disk with so many kilobytes free."""
    disk.mkdir(exist_ok=True)
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK]
    return start(*options, command=[*command, str(disk), str(free_kb)])


needs_namespaces = pytest.mark.skipif(
    subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "true"], check=False, capture_output=True
    ).returncode
    != 0,
    reason="user namespaces are not allowed here",
)


@pytest.fixture(scope="module")
def used(tmp_path_factory, serve):
    """The data of a broker that has served a topic, stopped cleanly."""
    data = tmp_path_factory.mktemp("used") / "data"
    server = serve(data)
    with Admin(server.wait_until_ready().bootstrap) as admin:
        admin.topics.create(NewTopic("kept", partitions=3))
    assert server.stop() == 0
    return data


@pytest.fixture
def data(used, tmp_path):
    shutil.copytree(used, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def store(data):
    return data / "metadata.sqlite"


def garbage(store):
    store.write_bytes(b"this is no store " * 5000)


def truncated(store):
    os.truncate(store, store.stat().st_size // 2)


def scratched(store):
    with store.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(3 * 4096))


def emptied(store):
    store.write_bytes(b"")


def directory(store):
    store.unlink()
    store.mkdir()


def foreign(store):
    store.unlink()
    connection = sqlite3.connect(store)
    connection.execute("CREATE TABLE somebody_elses(value)")
    connection.close()


def newer(store):
    connection = sqlite3.connect(store)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def of_another_cluster(store):
    connection = sqlite3.connect(store)
    with connection:
        text = b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}'
        connection.execute("UPDATE znode SET data = ? WHERE path = '/cluster/id'", (text,))
    connection.close()


@pytest.mark.parametrize(
    ("damage", "why", "way_out"),
    [
        (garbage, "is damaged (file is not a database)", "restore it from a backup"),
        (truncated, "is damaged", "restore it from a backup"),
        (scratched, "is damaged", "restore it from a backup"),
        (emptied, "is missing or empty, but", "from a backup"),
        (Path.unlink, "is missing or empty, but", "from a backup"),
        (directory, "(it is a directory)", "access"),
        (foreign, "is a database of another program", "name another file"),
        (newer, "has schema 99; this version reads 1", "start the version of barnabas that wrote it"),
        (of_another_cluster, "is of cluster AAAAAAAAAAAAAAAAAAAAAA, but the data in", "restore the store"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_store_that_cannot_be_used_is_one_line(data, store, damage, why, way_out):
    damage(store)
    line = one_line(start("--data", data))

    assert str(store) in line
    assert why in line
    assert way_out in line
    assert "zookeeper.connect may be wrong" not in line
    assert line == one_line(start("--data", data)), "a second start finds what the first one found"


def test_a_store_that_another_program_holds_is_one_line(data, store):
    connection = sqlite3.connect(store, isolation_level=None)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    line = one_line(start("--data", data))
    connection.close()

    assert f"the metadata store {store} is locked by another program" in line
    assert f"fuser {store}" in line


WITHOUT_ROOTS_POWERS = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] * (os.geteuid() == 0)


@pytest.mark.skipif(
    bool(WITHOUT_ROOTS_POWERS) and shutil.which("setpriv") is None, reason="root may read everything"
)
@pytest.mark.parametrize(
    ("what", "mode", "why"),
    [
        ("metadata.sqlite", 0o000, "(metadata.sqlite may not be read and written by this user)"),
        ("metadata.sqlite", 0o400, "(metadata.sqlite may not be read and written by this user)"),
        ("", 0o500, "this user"),
        (".", 0o500, "({} may not be written by this user)"),
    ],
    ids=["no file", "a file to read", "no place for sessions", "no place for files beside it"],
)
def test_a_store_without_access_is_one_line(data, what, mode, why):
    if not what:
        shutil.rmtree(data / "metadata.sqlite.sessions")
    (data / what).chmod(mode)
    try:
        line = one_line(start("--data", data, command=WITHOUT_ROOTS_POWERS))
    finally:
        (data / what).chmod(0o700)

    assert str(data / "metadata.sqlite") in line
    assert why.format(data) in line


def test_a_file_in_the_place_of_the_stores_directory_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "store.db"
    line = one_line(start("--data", tmp_path / "data", "--set", f"barnabas.metadata.path={path}"))

    assert str(path) in line
    assert "Not a directory" in line


@needs_namespaces
@pytest.mark.parametrize("free_kb", [0, 4, 12, 40, 60])
def test_a_full_disk_at_the_first_start_is_one_line(tmp_path, free_kb):
    disk = tmp_path / "disk"
    line = one_line(on_a_small_disk(disk, free_kb, "--data", disk / "data"))

    assert str(disk / "data") in line
    assert "is full: free some space there, then start again" in line


@needs_namespaces
@pytest.mark.parametrize("free_kb", [0, 8])
def test_a_full_disk_at_a_later_start_is_one_line(tmp_path, data, free_kb):
    disk = tmp_path / "disk"
    data.rename(tmp_path / "data.moved")
    (tmp_path / "disk.before").mkdir()
    (tmp_path / "data.moved").rename(tmp_path / "disk.before" / "data")
    line = one_line(on_a_small_disk(disk, free_kb, "--data", disk / "data"))

    assert f"the disk of the metadata store {disk}/data/metadata.sqlite is full" in line


@needs_namespaces
def test_a_full_disk_of_the_log_alone_is_one_line(tmp_path):
    disk = tmp_path / "disk"
    path = tmp_path / "store" / "store.db"
    line = one_line(
        on_a_small_disk(disk, 0, "--data", disk / "data", "--set", f"barnabas.metadata.path={path}")
    )

    assert str(disk / "data") in line
    assert os.strerror(errno.ENOSPC) in line
    assert "free space" in line


# ----------------------------------------------------------------------------- the write-ahead log


@pytest.fixture
def logged(tmp_path):
    """A store as a kill leaves it: twenty transactions in its write-ahead log."""
    live, store = tmp_path / "live.db", tmp_path / "store.db"
    database = Database(live, "FULL")
    for number in range(20):
        database.begin(write=True)
        database.next_number("session")
        database.add_session_change(number)
        database.commit()
    for name in ("live.db", "live.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / name.replace("live", "store"))
    database.close()
    return store


def frames(wal):
    """Where the frames of a write-ahead log begin."""
    size = wal.stat().st_size
    (page_bytes,) = struct.unpack_from(">I", wal.read_bytes(), 8)
    return range(32, size, 24 + page_bytes)


def flip(path, position):
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def sessions_counted(store):
    database = Database(store, "FULL")
    database.begin(write=True)
    number = database.next_number("session")
    database.rollback()
    database.close()
    return number - 1


def test_a_log_as_a_kill_leaves_it_is_read(logged):
    assert sessions_counted(logged) == 20


def test_a_transaction_that_was_being_written_is_left_out(logged):
    wal = logged.with_name("store.db-wal")
    os.truncate(wal, wal.stat().st_size - 100)
    assert sessions_counted(logged) == 19


def test_a_log_behind_older_frames_is_read(logged):
    """SQLite begins the file again from its start; what lies behind is of an older round."""
    database = Database(logged, "FULL")
    database._connection.execute("PRAGMA wal_checkpoint(RESTART)")
    for _ in range(2):
        database.begin(write=True)
        database.next_number("session")
        database.commit()
    assert len(frames(logged.with_name("store.db-wal"))) > 20
    assert sqlite_failures.wal_damage(logged) is None
    database.close()


@pytest.mark.parametrize("where", ["salt", "checksum", "page", "header"])
def test_damage_in_the_middle_of_the_log_is_one_line(logged, where):
    wal = logged.with_name("store.db-wal")
    middle = frames(wal)[len(frames(wal)) // 2]
    flip(wal, {"header": 17, "salt": middle + 9, "checksum": middle + 17, "page": middle + 1000}[where])
    before = wal.read_bytes()
    with pytest.raises(
        sqlite_failures.StoreUnusableError, match=r"store\.db is damaged .*write-ahead log"
    ) as caught:
        Database(logged, "FULL")

    assert "restore it from a backup" in str(caught.value)
    assert wal.read_bytes() == before, "what could be saved is still there"


def test_a_store_that_cannot_be_opened_leaves_no_connection(tmp_path, recwarn):
    path = tmp_path / "store.db"
    path.write_bytes(b"garbage " * 1000)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(sqlite3.DatabaseError):
        Database(path, "FULL")

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert list(recwarn) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"broker.id=\xff\xfe", "is not a text in UTF-8"),
        (b"log.dirs=/data\0", "line 1 has a NUL character"),
        (b"log.dirs= , ,", "log.dirs: at least one directory is needed"),
    ],
    ids=["no text", "nul", "no directory"],
)
def test_a_configuration_that_no_broker_can_have_is_one_line(tmp_path, text, why):
    config = tmp_path / "server.properties"
    config.write_bytes(text)

    assert why in one_line(start("--config", config))


def test_a_host_that_no_host_can_be_is_one_line(tmp_path):
    refusal = one_line(start("--data", tmp_path / "data", "--host", "a" * 300))

    assert "Socket server failed to bind to aaa" in refusal
    assert "too long" in refusal
