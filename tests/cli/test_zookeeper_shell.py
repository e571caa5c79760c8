"""``barnabas zookeeper-shell`` where no server is needed;
what it prints, `tests/jvm/test_cluster_tools.py` compares.
"""

import pytest


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("set", "/a", "b"), "set is none of ls, get, stat: this shell changes nothing"),
        (("deleteall", "/a"), "deleteall is none of ls, get, stat"),
        (("ls", "-z", "/a"), "ls [-R] [-s] PATH, with a path that begins with /"),
        (("get",), "get [-s] PATH"),
        (("stat", "a"), "stat PATH"),
    ],
)
def test_what_is_no_command_of_it_is_one_line_before_it_connects(barnabas, words, reason):
    done = barnabas("zookeeper-shell", "127.0.0.1:1", *words)

    assert (done.exit_code, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert reason in line


def test_a_server_that_does_not_answer_is_one_line(barnabas):
    done = barnabas("zookeeper-shell", "127.0.0.1:1", "ls", "/", "--timeout", "300")

    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: no ZooKeeper server of 127.0.0.1:1 answered within 300 ms: ")
    assert "Connection refused" in line
