"""The entry point: what it costs, what it teaches."""

import subprocess
import sys

import pytest

from barnabas import __version__
from barnabas.admin import Admin
from barnabas.cli.main import COMMANDS
from barnabas.core import form
from barnabas.core.broker_config import BROKER_CONFIG
from serving import free_port

ADD = "add --advertise HOST[:PORT]"
HEAVY = {"asyncio", "numpy", "numba", "pyarrow", "pyspark", "rich", "kazoo", "sqlite3", "cramjam", "crc32c"}


def imported_by(statement):
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_package_imports_nothing_of_itself():
    assert {name for name in imported_by("import barnabas") if name.startswith("barnabas.")} == set()


def test_help_needs_no_command_and_nothing_heavy():
    loaded = imported_by(
        "sys.argv = ['barnabas', '--help']\n"
        "from barnabas.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass"
    )
    assert loaded.isdisjoint(HEAVY)
    assert not [name for name in loaded if name.startswith(("barnabas.cli.commands.", "barnabas.client"))]


def test_clients_need_neither_numba_nor_a_server():
    loaded = imported_by("import barnabas.client.sync, barnabas.admin")
    assert loaded.isdisjoint({"numpy", "numba", "pyarrow", "kazoo", "sqlite3"})
    servers = ("barnabas.broker", "barnabas.replica", "barnabas.cluster", "barnabas.log.", "barnabas.node")
    assert not [name for name in loaded if name.startswith(servers)]


def test_version(barnabas):
    assert barnabas("--version").stdout == f"barnabas {__version__} ({form.describe()})\n"


def test_help_names_every_command(barnabas):
    shown = barnabas("--help").stdout
    assert all(name in shown for name in COMMANDS)


@pytest.mark.parametrize(
    "command", ["topics", "produce", "consume", "groups", "explain", "get-offsets", "serve"]
)
def test_every_command_teaches_by_example(barnabas, command):
    shown = barnabas(command, "--help").stdout
    assert f"barnabas {command}" in shown
    assert "Examples:" in shown


def test_without_a_command_help_is_shown_and_it_is_an_error(barnabas):
    result = barnabas()
    assert result.exit_code == 1
    assert "Commands:" in result.stderr


def test_an_unknown_command_is_one_line(barnabas):
    result = barnabas("topisc")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "No such command 'topisc'" in result.stderr


def test_what_a_client_warns_of_is_said_to_a_person(tmp_path):
    quick = tmp_path / "quick.properties"
    quick.write_text("default.api.timeout.ms=300\nrequest.timeout.ms=300\n")
    command = ["topics", "--list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(quick)]
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", *command], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == (
        "Warning: No broker answers yet: 127.0.0.1:1: nothing listens there\n"
        "Error while executing topic command : No broker of 127.0.0.1:1 answered in 300 ms:"
        " 127.0.0.1:1: nothing listens there\n"
    )


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            ("--host", "0.0.0.0"),
            f"--host 0.0.0.0 listens on every address, and clients have to be told one of them: {ADD}",
        ),
        (("--advertise", "host:port"), "--advertise host:port: write it as HOST or HOST:PORT"),
        (
            ("--set", "listeners=PLAINTEXT://:0,B://:0", "--advertise", "h"),
            "--advertise is for one listener; with several, set advertised.listeners",
        ),
    ],
)
def test_serve_says_how_to_advertise(barnabas, flags, line):
    assert barnabas("serve", *flags).stderr == f"Error: {line}\n"


@pytest.mark.parametrize("form", ["localhost", "localhost:{}"])
def test_clients_are_told_the_advertised_address(serve, tmp_path, form):
    port = free_port()
    advertised = form.format(port)
    server = serve(tmp_path / "data", "--host", "0.0.0.0", "--advertise", advertised, port=port)
    with Admin(server.wait_until_ready().bootstrap) as admin:
        (node,) = admin.cluster.describe().brokers
    assert (node.host, node.port) == ("localhost", port)


@pytest.mark.parametrize("words", [["-V"], ["version"]])
def test_the_version_in_other_words(barnabas, words):
    assert barnabas(*words).stdout == barnabas("--version").stdout


def test_help_in_other_words(barnabas):
    assert barnabas("help").stdout == barnabas("--help").stdout
    assert barnabas("help", "topics").stdout == barnabas("topics", "--help").stdout


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("topcis", "topics"),
        ("kafka-topics.sh", "topics"),
        ("kafka-console-producer", "produce"),
        ("kafka-consumer-groups.sh", "groups"),
        ("kafka-groups.sh", "list-groups"),
    ],
)
def test_a_command_that_is_misspelt_or_has_kafkas_name_is_suggested(barnabas, name, meant):
    line = f"Error: No such command {name!r}. Did you mean {meant}? (see barnabas --help)\n"
    for words in ([name], ["help", name]):
        result = barnabas(*words)
        assert (result.exit_code, result.stderr) == (1, line)


def test_serve_lists_its_keys(barnabas):
    one = barnabas("serve", "--list-config", "log.retention.hours").stdout.splitlines()
    assert one[0] == "log.retention.hours (int, default 168, read-only)"
    assert len(one) == 2
    some = [
        line for line in barnabas("serve", "--list-config", "retention").stdout.splitlines() if line[0] != " "
    ]
    assert {line.split()[0] for line in some} >= {"log.retention.ms", "offsets.retention.minutes"}
    every = [line for line in barnabas("serve", "--list-config").stdout.splitlines() if line[0] != " "]
    assert [line.split()[0] for line in every] == sorted(BROKER_CONFIG)
    wrong = barnabas("serve", "--list-config", "retenshun")
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("Error: No key of the broker has 'retenshun' in its name")
