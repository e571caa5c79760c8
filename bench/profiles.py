"""What a client of today costs: the same requests at a broker of the profile 3.9 and at one of 4.4, and what
only 4.4 has.

    python -m bench.profiles [--pairs 60] [--seconds 0.3] [--rows produce,fetch,heartbeat,pushes]

Two brokers of ours run side by side; a pair is a short turn at each, in an order that alternates, so that
what else the machine does falls on both. Printed is the median of the ratios of processor time a request
with the interval that it lies in at 95 %, and the budget: within 2 %. Pushes are those of KIP-714:
clients push to the broker of 4.4, and its processor time is printed as a share of one processor for a
thousand pushes a minute (budget: 1 %).
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "jvm"))

from kafka_harness import Server, free_port

from barnabas.admin import Admin, ConfigResource, ResourceType
from barnabas.client import otlp
from barnabas.core import form
from barnabas.core.chunks import materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.message import Message
from barnabas.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from barnabas.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from bench import members, wire
from bench.processes import processor_time
from bench.quotas import median_between
from bench.raw import RawClient, produce_in_flight

TOPIC: Final = "profiles"
WINDOW: Final = 200
BUDGET: Final = 2.0
"""Per cent between the profiles."""
CONNECTIONS, CLIENTS_OF_EACH, METRICS = 25, 8, 40
"""Who pushes, as many as one address may begin in a minute, and how much each says."""
PUSH_ROUNDS, PUSH_PAUSE_S = 6, 0.3
"""How often each pushes, and what lies between: more than the interval that they are told."""
A_MINUTE, PUSH_BUDGET = 1000, 1.0
"""How many pushes there are, and the per cent of a processor that they may take."""
Work = Callable[[Server, float], int]
"""Asks for so many seconds; the number of requests."""


def produce(server: Server, seconds: float) -> int:
    """With 200 in flight."""
    with RawClient(server.port) as client:
        return produce_in_flight([client], TOPIC, wire.batch(b"x" * 100, 1), seconds, WINDOW)[0]


def fetch(server: Server, seconds: float) -> int:
    """A record each, one request after the other."""
    frame, requests = wire.fetch(TOPIC, 0, 100), 0
    with RawClient(server.port) as client:
        wire.fetched_records(TOPIC, client.ask(frame))
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            client.ask(frame)
            requests += 1
    return requests


def heartbeat(server: Server, seconds: float) -> int:
    """Of the only member of a classic group, one after the other."""
    requests = 0
    members.wait_for_coordinator(server.port, ["beating"])
    (connection,) = members.connect(server.port, 1)
    with connection:
        member = members.Member("beating", connection)
        members.form([member])
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            member.send_heartbeat()
            if error := member.read_heartbeat():
                raise RuntimeError(f"a heartbeat was answered with error code {error}")
            requests += 1
        members.leave([member])
    return requests


ROWS: Final[dict[str, Work]] = {"produce": produce, "fetch": fetch, "heartbeat": heartbeat}


def cost_us(server: Server, work: Work, seconds: float) -> float:
    """Processor time of a request."""
    before = processor_time(server.pid).total_s
    requests = work(server, seconds)
    return (processor_time(server.pid).total_s - before) / requests * 1e6


def compare(name: str, old: Server, new: Server, pairs: int, seconds: float) -> bool:
    """Prints the line of a row; whether its budget may be met."""
    work, found = ROWS[name], []
    for server in (old, new):
        for _ in range(3):
            cost_us(server, work, seconds)
    for turn in range(pairs):
        order = (old, new) if turn % 2 else (new, old)
        costs = {server.port: cost_us(server, work, seconds) for server in order}
        found.append((costs[old.port], costs[new.port]))
    median, least, most = median_between([(b / a - 1) * 100 for a, b in found])
    was, now = (statistics.median(costs) for costs in zip(*found, strict=True))
    print(
        f"{name}: {was:.2f} us in the profile 3.9, {now:.2f} in 4.4: {median:+.1f} % "
        f"({least:+.1f} to {most:+.1f}, {pairs} pairs)",
        flush=True,
    )
    return least <= BUDGET


def pushes(server: Server) -> bool:
    """Prints what a thousand clients cost that push once a minute; whether the budget is met."""
    with Admin(server.bootstrap) as admin:
        wanted = {"interval.ms": "100", "metrics": "*"}
        admin.configs.alter({ConfigResource(ResourceType.CLIENT_METRICS, "all"): wanted})
    now = time.time_ns()
    values = [
        otlp.Value(
            f"org.apache.kafka.producer.some.metric.{number}",
            1.5 * number,
            {"topic": TOPIC},
            number % 2 == 0,
        )
        for number in range(METRICS)
    ]
    data = otlp.metrics_data(values, {}, since_ns=now - 10**9, now_ns=now, temporality=otlp.DELTA)
    with contextlib.ExitStack() as stack:
        pushing = [
            (client, _wanted(client))
            for client in (stack.enter_context(RawClient(server.port)) for _ in range(CONNECTIONS))
            for _ in range(CLIENTS_OF_EACH)
        ]
        found = []
        for _ in range(PUSH_ROUNDS):
            before = processor_time(server.pid).total_s
            for client, wants in pushing:
                _push(client, wants, data)
            found.append((processor_time(server.pid).total_s - before) / len(pushing))
            time.sleep(PUSH_PAUSE_S)
    # The first round loads the library and begins the series.
    one_s = statistics.median(found[1:])
    share = one_s * A_MINUTE / 60 * 100
    print(
        f"pushes: {one_s * 1e6:.0f} us of a push of {METRICS} metrics, {len(data)} bytes "
        f"({found[0] * 1e6:.0f} of the first): {share:.2f} % of a processor for {A_MINUTE} a minute",
        flush=True,
    )
    return share <= PUSH_BUDGET


def _wanted(client: RawClient) -> GetTelemetrySubscriptionsResponse:
    answer = _asked(client, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, GetTelemetrySubscriptionsRequest())
    assert isinstance(answer, GetTelemetrySubscriptionsResponse), answer
    if answer.error_code:
        raise RuntimeError(f"asking what is wanted was answered with error code {answer.error_code}")
    return answer


def _push(client: RawClient, wanted: GetTelemetrySubscriptionsResponse, data: bytes) -> None:
    push = PushTelemetryRequest(
        client_instance_id=wanted.client_instance_id, subscription_id=wanted.subscription_id, metrics=data
    )
    answer = _asked(client, ApiKey.PUSH_TELEMETRY, push)
    assert isinstance(answer, PushTelemetryResponse), answer
    if answer.error_code:
        raise RuntimeError(f"a push was answered with error code {answer.error_code}")


def _asked(client: RawClient, key: ApiKey, request: Message) -> Message:
    frame = materialize(encode_request(RequestHeader(key, 0, 7, "pushing"), request))
    return decode_response(key, 0, bytes(client.ask(frame)))[1]


def started(folder: Path, profile: str) -> Server:
    """A broker of ours in a profile; where 4.4 has a receiver of metrics, it is on."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "serve",
        "--data",
        str(folder / profile),
        "--port",
        str(port),
    ]
    command += ["--set", f"barnabas.api.profile={profile}", "--set", f"metrics.port={free_port()}"]
    return Server(command, port, folder / f"{profile}.log")


def main() -> int:
    """The exit code: 0 where each budget is met, or may be; 1 where one is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rows", default="produce,fetch,heartbeat,pushes")
    given = parser.parse_args()
    good = True
    print(form.describe(), flush=True)
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as place:
        old, new = (started(Path(place), profile) for profile in ("3.9", "4.4"))
        try:
            for server in (old, new):
                server.wait_until_listening()
                with RawClient(server.port) as client:
                    client.create_topic(TOPIC)
                    client.base_offset_of_one(TOPIC, wire.batch(b"x" * 100, 1))
            for name in given.rows.split(","):
                if name == "pushes":
                    good &= pushes(new)
                else:
                    good &= compare(name, old, new, given.pairs, given.seconds)
        finally:
            for server in (old, new):
                server.stop()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
