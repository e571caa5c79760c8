"""Who may read what a broker writes, and who can keep it from starting."""

import fcntl
import stat

import pytest

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.client import Producer
from barnabas.log.filesystem import LockedError, OsFilesystem


def modes(root):
    """The permissions of everything below a directory, and of itself."""
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.lstat().st_mode) for path in [root, *root.rglob("*")]
    }


def write_something(server):
    broker = server.wait_until_ready()
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic("secret"))
    with Producer(broker.bootstrap) as producer:
        producer.send("secret", b"value").result()


def test_data_store_and_sessions_are_for_the_brokers_user_alone(tmp_path, serve):
    server = serve(tmp_path / "data")
    write_something(server)
    running = modes(tmp_path / "data")
    assert server.stop() == 0
    found = {**running, **modes(tmp_path / "data")}

    assert {"metadata.sqlite", ".lock", "meta.properties", "secret-0/00000000000000000000.log"} < found.keys()
    assert any(name.endswith(".sock") for name in found)
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


def test_a_key_opens_them_for_others(tmp_path, serve):
    server = serve(tmp_path / "data", "--set", "barnabas.data.umask=027")
    write_something(server)
    assert server.stop() == 0
    found = modes(tmp_path / "data")

    assert found["."] == found["secret-0"] == 0o750
    assert found["secret-0/00000000000000000000.log"] == found["meta.properties"] == 0o640
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o007} == {}


@pytest.mark.parametrize("value", ["8", "rw", "-1", "1000", "0o77"])
def test_a_umask_that_is_none_stops_the_start(tmp_path, serve, value):
    server = serve(tmp_path / "data", "--set", f"barnabas.data.umask={value}")

    code = server.process.wait(20)
    server.kill()
    assert code == 1
    assert f"Invalid value {value} for configuration barnabas.data.umask" in server.tail()


def test_a_lock_file_of_an_older_version_is_closed_to_others(tmp_path):
    path = tmp_path / ".lock"
    path.touch()
    path.chmod(0o644)
    held = OsFilesystem().lock(str(path))

    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with path.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(LockedError):
        OsFilesystem().lock(str(path))
    held.release()
