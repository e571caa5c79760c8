"""What is read of brokers' metrics, by the names of our brokers and by those of the JMX exporter."""

import asyncio
import http.server
import socket
import threading

import pytest

from barnabas.client import Producer
from barnabas.operations.broker_metrics import figures_of
from barnabas.operations.errors import OperationError
from barnabas.operations.scrapes import BrokerScraper, ZookeeperScraper

USUAL_RULES = """\
# HELP kafka_network_requestmetrics_totaltimems Attribute exposed for management
# TYPE kafka_network_requestmetrics_totaltimems untyped
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.50",} 1.0
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99",} 7.5
kafka_network_requestmetrics_totaltimems{request="FetchConsumer",quantile="0.99",} 501.0 1764331200000
kafka_network_requestmetrics_totaltimems{request="FetchFollower",quantile="0.99",} 9.0
kafka_network_requestmetrics_requests_total{request="Produce",version="2",} 5.0
kafka_network_requestmetrics_requests_total{request="Produce",version="11",} 900.0
kafka_network_requestmetrics_requests_total{request="Metadata",version="0",} 900.0
kafka_network_requestchannel_requestqueuesize 3.0
kafka_network_socketserver_networkprocessoravgidlepercent 0.9
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate NaN
"""
ATTRIBUTE_IN_THE_NAME = """\
kafka_network_requestmetrics_totaltimems_99thpercentile{request="Produce",} 7.5
kafka_network_requestmetrics_totaltimems_count{request="Produce",} 99.0
kafka_network_requestmetrics_totaltimems_99thpercentile{request="FetchConsumer",} 501.0
kafka_network_requestmetrics_requestspersec_count{request="Produce",version="2",} 5.0
kafka_network_requestmetrics_requestspersec_oneminuterate{request="Produce",version="2",} 0.1
kafka_network_requestchannel_requestqueuesize_value 3.0
kafka_network_socketserver_networkprocessoravgidlepercent_value 0.9
"""
WITHOUT_RULES = """\
kafka_network_RequestMetrics_99thPercentile{name="TotalTimeMs",request="Produce",} 7.5
kafka_network_RequestMetrics_99thPercentile{name="LocalTimeMs",request="Produce",} 1.5
kafka_network_RequestMetrics_99thPercentile{name="TotalTimeMs",request="FetchConsumer",} 501.0
kafka_network_RequestMetrics_Count{name="RequestsPerSec",request="Produce",version="2",} 5.0
kafka_network_RequestChannel_Value{name="RequestQueueSize",} 3.0
kafka_network_SocketServer_Value{name="NetworkProcessorAvgIdlePercent",} 0.9
"""


@pytest.mark.parametrize("text", [USUAL_RULES, ATTRIBUTE_IN_THE_NAME, WITHOUT_RULES])
def test_the_exporters_names_are_read_whatever_its_rules(text):
    assert figures_of(text) == {
        "produce_ms": 7.5,
        "fetch_consumer_ms": 501.0,
        "request_queue_size": 3.0,
        "network_idle": 0.9,
        "old_requests": 5.0,
    }


@pytest.mark.parametrize("line", ["", "#", "x", "x{ 1", 'x{a="b} 1', "x y", 'x{a="\\', "x" * 10_000, "{} 1"])
def test_what_is_no_line_of_metrics_says_nothing(line):
    assert figures_of(f"{line}\nkafka_network_requestchannel_requestqueuesize 3") == {
        "request_queue_size": 3.0
    }


@pytest.mark.parametrize(
    "line",
    [
        "kafka_network_socketserver_networkprocessoravgidlepercent +Inf",
        'kafka_network_requestmetrics_requests_total{request="Produce",version="\u00b2"} 1',
        'kafka_network_requestmetrics_requests_total{request="Produce",version="' + "9" * 3_900 + '"} 1',
    ],
)
def test_a_number_that_nothing_is_compared_with_is_no_figure(line):
    assert figures_of(line) == {}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"zk_watch_count\t7\nzk_server_state\tleader\n", {"watch_count": 7.0, "is_leader": 1.0}),
        (b"zk_watch_count\tmany\n", "what is none"),
        (b"zk_watch_count\tnan\n", "what is none"),
        (b"mntr is not executed because it is not in the whitelist.\n", "4lw.commands.whitelist"),
        (b"zk_watch_count\t7\n" * 200_000, {"watch_count": 7.0, "is_leader": 0.0}),
        (b"", {"is_leader": 0.0}),
    ],
    ids=["figures", "text", "nan", "refused", "endless", "nothing"],
)
def test_a_server_that_answers_mntr_with_something_else_harms_no_other(answer, said):
    async def ask():
        async def serve(reader, writer):
            await reader.readexactly(4)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            return (await ZookeeperScraper(f"{address},127.0.0.1:1/kafka")()), address

    found, address = asyncio.run(ask())
    assert isinstance(found["127.0.0.1:1"], OperationError)
    assert found[address] == said if isinstance(said, dict) else said in str(found[address])


class _Scraped(http.server.BaseHTTPRequestHandler):
    texts = ()

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.texts.pop(0).encode())

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("head", ["", "Content-Length: 99\r\n"], ids=["no length", "length"])
@pytest.mark.parametrize("end", ["", "\n"], ids=["within a line", "after a line"])
def test_metrics_that_break_off_are_not_read_as_smaller_numbers(head, end):
    """Of 12345 there may be 12 where a server ends early."""
    text = f"kafka_network_requestchannel_requestqueuesize 12{end}"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(f"HTTP/1.1 200 OK\r\n{head}\r\n{text}".encode())

        threading.Thread(target=answer, daemon=True).start()
        (found,) = asyncio.run(BrokerScraper({1: f"http://127.0.0.1:{server.getsockname()[1]}/"})()).values()
    if end and not head:
        assert found.figures == {"request_queue_size": 12.0}
    else:
        assert isinstance(found, OperationError)
        assert "cannot be read" in str(found)


def test_counts_are_made_rates_and_a_restart_is_not_one():
    busy = "barnabas_event_loop_busy_seconds_total {}\nkafka_network_requestmetrics_requests_total"
    busy += '{{request="Fetch",version="3"}} {}\n'
    _Scraped.texts = [busy.format(1.0, 100), busy.format(3.5, 150), busy.format(0.1, 1)]
    clock = iter([10.0, 20.0, 30.0])
    server = http.server.HTTPServer(("127.0.0.1", 0), _Scraped)
    threading.Thread(target=server.serve_forever, args=(0.01,)).start()
    try:
        scraper = BrokerScraper(
            {1: f"http://127.0.0.1:{server.server_port}/metrics"}, clock_s=lambda: next(clock)
        )
        assert [asyncio.run(scraper())[1].figures for _ in range(3)] == [
            {},
            {"loop_idle": 0.75, "old_requests_per_s": 5.0},
            {},
        ]
    finally:
        server.shutdown()
        server.server_close()


def test_a_broker_of_ours_says_the_times_of_its_requests(serve, tmp_path):
    server = serve(tmp_path / "data", "--set", "metrics.port=0")
    server.wait_until_ready()
    url = next(word for word in server.ready_line.split() if "/metrics" in word).partition("=")[2]
    with Producer(server.bootstrap) as producer:
        producer.send_and_wait("t", "v")
    scraper = BrokerScraper({0: url})
    asyncio.run(scraper())
    figures = asyncio.run(scraper())[0].figures
    assert figures["produce_ms"] > 0
    assert 0 <= figures["loop_idle"] <= 1
    assert figures["old_requests_per_s"] == 0
    assert server.stop() == 0
