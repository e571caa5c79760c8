"""``barnabas explain request``: one request on its way, and the times that the broker's metrics have."""

import http.server
import threading

import pytest

from barnabas.admin import Admin, NewTopic
from waiting import until

STATIONS = ["request", "broker", "listener", "channel", "queue", "handler", "purgatory", "answer"]


@pytest.fixture
def explain(barnabas):
    return lambda *flags: barnabas("explain", "request", *map(str, flags))


def stations(result):
    assert result.exit_code == 0, result.stderr
    return dict(line.split(maxsplit=1) for line in result.stdout.splitlines())


@pytest.fixture
def topic(broker, topic_name):
    name = topic_name("walked")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=2))
    return name


@pytest.mark.parametrize(
    ("flags", "request_class", "decides"),
    [
        (["api-versions"], "ApiVersionsRequest", "handleApiVersionsRequest"),
        (["metadata"], "MetadataRequest", "the MetadataCache"),
        (["find-coordinator", "--group", "readers"], "FindCoordinatorRequest", "__consumer_offsets"),
        (["list-offsets", "--topic", "TOPIC", "--partition", "1"], "ListOffsetsRequest", "time index"),
        (["fetch", "--topic", "TOPIC"], "FetchRequest", "high watermark"),
    ],
)
def test_each_request_is_walked_from_the_client_to_the_answer(
    barnabas, explain, broker, topic, flags, request_class, decides
):
    create = ("explain", "coordinator", "readers", "--create", "--bootstrap-server", broker.bootstrap)
    until(lambda: barnabas(*create).exit_code == 0, "no coordinator: __consumer_offsets was not made")
    named = [topic if flag == "TOPIC" else flag for flag in flags]
    found = stations(explain(*named, "--bootstrap-server", broker.bootstrap))

    assert list(found) == [*STATIONS, "times"]
    assert found["request"].startswith(f"{request_class} v")
    assert found["listener"].startswith(f"PLAINTEXT://{broker.bootstrap}: ")
    assert decides in found["handler"]
    assert found["times"].endswith("--metrics http://HOST:PORT/metrics")


def test_the_broker_that_was_named_is_asked_because_it_was(explain, broker):
    found = stations(explain("metadata", "--broker", 0, "--bootstrap-server", broker.bootstrap))

    assert found["broker"] == "0: the one that --broker names"


def test_a_request_that_would_create_a_topic_is_not_sent(explain, serve, tmp_path):
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    result = explain("find-coordinator", "--bootstrap-server", server.bootstrap)

    assert result.exit_code == 1
    assert "__consumer_offsets does not exist yet" in result.stderr
    with Admin(server.bootstrap) as admin:
        assert admin.topics.list(internal=True) == []
    assert server.stop() == 0


def test_the_times_of_the_broker_stand_at_their_stations(explain, serve, tmp_path):
    server = serve(tmp_path / "data", "--set", "metrics.port=0")
    server.wait_until_ready()
    url = next(word for word in server.ready_line.split() if "/metrics" in word).partition("=")[2]
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("walked"))
    flags = ("--topic", "walked", "--bootstrap-server", server.bootstrap, "--metrics", url)
    found = stations(explain("fetch", *flags))

    assert "times" not in found
    assert "localtimems p50 " in found["handler"]
    assert "(1 requests)" in found["purgatory"]
    waited_ms = float(found["purgatory"].partition("remotetimems p50 ")[2].partition(" ")[0])
    seen_ms = float(found["answer"].partition(" ms")[0])
    assert waited_ms <= seen_ms
    assert waited_ms >= 500, "it was sent for the end of the partition"
    assert "totaltimems p50 " in found["answer"]
    assert server.stop() == 0


@pytest.fixture
def other_server():
    """An HTTP server without metrics."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
        thread.join()


def test_what_cannot_be_walked_is_one_line(explain, broker, topic, other_server):
    at = ("--bootstrap-server", broker.bootstrap)
    for flags, words in (
        (("fetch", *at), "fetch is about a partition: give --topic"),
        (("fetch", "--topic", "never-made", *at), "There is no partition never-made-0 in the cluster"),
        (("list-offsets", "--topic", topic, "--partition", 2, *at), f"There is no partition {topic}-2"),
        (("metadata", "--broker", 9, *at), "There is no broker 9 in the cluster now"),
        (("metadata", *at, "--metrics", "file:///etc/passwd"), "is no URL of metrics"),
        (("metadata", *at, "--metrics", other_server), "cannot be read: HTTP Error 404"),
        (("produce", *at), "'produce' is not one of 'api-versions'"),
    ):
        result = explain(*flags)

        assert (result.exit_code, result.stdout) == (1, ""), flags
        (line,) = result.stderr.splitlines()
        assert words in line, line
