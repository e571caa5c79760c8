"""Standard streams that are full or closed: one line, and no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
LOCAL = [["--help"], ["--version"], ["topics", "--help"], ["kafka-scripts"]]
REMOTE = [
    ["topics", "--describe"],
    ["broker-api-versions"],
    ["configs", "--describe", "--entity-type", "brokers", "--entity-name", "0", "--all"],
    ["get-offsets", "--topic", "streams"],
    ["explain", "partition", "streams", "0"],
    ["log-dirs", "--describe"],
    ["consume", "--topic", "streams", "--from-beginning", "--max-messages", "1"],
    ["verifiable-producer", "--topic", "streams", "--max-messages", "3"],
    ["verifiable-consumer", "--topic", "streams", "--group-id", "streams", "--max-messages", "1"],
]


def into(stdout, words):
    command = [sys.executable, "-m", "barnabas", *words]
    return subprocess.run(command, check=False, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=30)


@pytest.fixture
def full():
    with FULL.open("wb") as stdout:
        yield stdout


@pytest.fixture(scope="module")
def at(broker):
    words = ["produce", "--topic", "streams", "--bootstrap-server", broker.bootstrap]
    subprocess.run([sys.executable, "-m", "barnabas", *words], check=True, input=b"one\n")
    return ["--bootstrap-server", broker.bootstrap]


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", [*LOCAL, *REMOTE], ids=lambda words: " ".join(words[:2]))
def test_an_output_that_is_full_is_one_line(full, words, tmp_path, request):
    where = [str(tmp_path / "scripts")] if words == ["kafka-scripts"] else []
    if words in REMOTE:
        where = request.getfixturevalue("at")
    done = into(full, [*words, *where])
    *before, last = done.stderr.splitlines()
    assert (done.returncode, last) == (1, "Error: cannot write to standard output: No space left on device")
    assert not [line for line in before if "Traceback" in line or "Exception" in line]


def test_lines_cannot_come_from_a_closed_input(at):
    closing = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "barnabas"]
    done = subprocess.run(
        [*closing, "produce", "--topic", "streams", *at],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "Error: standard input is closed: there are no lines to send\n",
    )


def test_a_closed_output_is_no_error(at):
    closing = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "barnabas"]
    for words in (
        ["topics", "--list"],
        ["consume", "--topic", "streams", "--from-beginning", "--max-messages", "1"],
    ):
        done = subprocess.run(
            [*closing, *words, *at], check=False, stderr=subprocess.PIPE, text=True, timeout=30
        )
        assert done.returncode == 0
        assert "Traceback" not in done.stderr
