"""The logs that have Kafka's names: off without a word, and what is in them."""

import pytest
from click.testing import CliRunner

from barnabas.admin import Admin, NewTopic
from barnabas.cli.commands.serve import serve as serve_command
from waiting import until


def lines_of(server, logger):
    return [line for line in server.log.read_text().splitlines() if f" {logger} " in line]


@pytest.fixture
def used(serve, tmp_path):
    """Starts a broker, makes a topic and deletes it, and stops; the broker's process with its log."""

    def use(*options):
        server = serve(tmp_path / "data", *options)
        address = server.wait_until_ready().bootstrap
        with Admin(address) as admin:
            admin.topics.create([NewTopic("orders", 2)])
            admin.topics.delete(["orders"])
            # The answer comes before the controller has its brokers delete the replicas.
            until(lambda: not list(server.data_dir.glob("orders-[01]")))
        assert server.stop() == 0
        return server

    return use


def test_each_request_has_a_line_without_its_contents(used):
    lines = lines_of(used("--log", "kafka.request.logger=debug"), "kafka.request.logger")

    created = next(line for line in lines if "api=CREATE_TOPICS" in line)
    assert "listener=PLAINTEXT principal=User:ANONYMOUS" in created
    assert "orders" not in created
    for field in ("version=", "correlation_id=", "connection=127.0.0.1:", "bytes=", "total_ms="):
        assert field in created


def test_state_changes_are_seen_on_both_sides(used):
    lines = lines_of(used("--log", "state.change.logger=debug"), "state.change.logger")

    for side in ("sent", "handled"):
        for request in ("leader_and_isr", "update_metadata", "stop_replica"):
            assert any(f" {request}.{side} " in line for line in lines), (request, side)
        for request in ("leader_and_isr", "stop_replica"):
            of_partition = [line for line in lines if f" {request}.{side}.partition " in line]
            assert any("partition=orders-1" in line for line in of_partition), (request, side)


def test_info_leaves_the_partitions_out(used):
    lines = lines_of(used("--log", "state.change.logger=info"), "state.change.logger")

    assert any(" leader_and_isr.sent " in line for line in lines)
    assert not [line for line in lines if ".partition " in line]


def test_they_are_off_whatever_else_is_shown(used):
    server = used("--log-level", "debug")

    assert not lines_of(server, "state.change.logger")
    assert not lines_of(server, "kafka.request.logger")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("kafka.request=debug", "'kafka.request' is no logger of the broker"),
        ("state.change.logger", "is not LOGGER=LEVEL with a level of debug, info, warning, error"),
        ("barnabas.cluster=loud", "is not LOGGER=LEVEL with a level of debug, info, warning, error"),
    ],
)
def test_what_is_no_logger_or_no_level_is_refused_in_one_line(given, said):
    result = CliRunner().invoke(serve_command, ["--log", given])

    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_kafkas_words_and_loggers_are_there_when_they_are_asked_for(used):
    options = ("--set", "barnabas.log.names=kafka", "--log", "kafka.controller.KafkaController=info")
    server = used(*options, "--log", "state.change.logger=debug")
    lines = server.log.read_text()

    for line in (
        (
            "INFO [Controller id=0] 0 successfully elected as the controller. Epoch incremented to 1"
            " (kafka.controller.KafkaController)"
        ),
        "INFO [Controller id=0] New topics: [orders], deleted topics: [] (kafka.controller.KafkaController)",
        (
            "INFO [Controller id=0 epoch=1] Sending LeaderAndIsr request to broker 0 with 2 become-leader "
            "and 0 become-follower partitions (state.change.logger)"
        ),
        (
            "INFO [Broker id=0] Handling LeaderAndIsr request from controller 0 for 2 partitions "
            "(state.change.logger)"
        ),
        (
            "INFO [Controller id=0 epoch=1] Sending StopReplica request for 2 replicas to broker 0 "
            "(state.change.logger)"
        ),
    ):
        assert f"] {line}\n" in lines, line
    for request in ("LeaderAndIsr", "UpdateMetadata", "StopReplica"):
        assert f"DEBUG [Controller id=0 epoch=1] Sending {request} request " in lines
    assert "GroupCoordinator" not in lines, "its level is the default: warnings"


def test_a_logger_that_nothing_here_stands_for_is_refused(barnabas):
    refused = barnabas("serve", "--log", "kafka.Nothing=info")

    assert (refused.exit_code, refused.stdout) == (1, "")
    (line,) = refused.stderr.splitlines()
    assert "'kafka.Nothing' is no logger of the broker" in line
