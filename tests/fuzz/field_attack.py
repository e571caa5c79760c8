"""Requests of every API that the broker advertises, plausible but for a few fields, and the judge of the
answers.

    python tests/fuzz/field_attack.py [--minutes 5] [--seed N]

starts brokers of its own and goes on for that long. A request is made from its schema, so an API that is
added takes part without a line here: names are those of a topic, a group and a config that exist, one element
a list. Each has to be answered or its connection closed; the answer has to be readable, with errors that
Kafka has; the broker logs no ERROR (as it does for an exception that was not foreseen: the code alone says
nothing, for some requests it is Kafka's own answer) and goes on.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from test_fuzz_control import make_absurd, places
from wire_peer import WirePeer, batch, frame_of

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_4_4
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.schema import Struct, resolved

TOPIC = "fuzz"
PATIENCE_S = 60
AT_ONCE = 8
WAIT_MS_MAX = 50
"""What a request may ask the broker to wait, whatever was put into the field:
else some would be right not to answer.
"""
CONTROLLER_EPOCH_MAX = 1
"""Once the greatest epoch is known, whatever comes after it would be refused unread."""

FROM_CONTROLLERS = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
}
"""They take partitions away, or tell of brokers that are not there: they have a broker to themselves."""

# Impatient, so that a member which is alone does not wait for others.
SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "offsets.topic.num.partitions": "2",
}
OPTIONS = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]

APIS = api_table(PROFILE_4_4)
PLAUSIBLE = {
    "acks": 1,
    "broker_epoch": -1,
    "client_software_name": "fuzz",
    "client_software_version": "1",
    "config_names": "retention.ms",
    "controller_epoch": 1,
    "count": 2,
    "generation_id": -1,
    "host": "127.0.0.1",
    "listener": "PLAINTEXT",
    "max_bytes": 1 << 20,
    "member_id": "",
    "num_partitions": 1,
    "partition_max_bytes": 1 << 20,
    "protocol_type": "consumer",
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "value": "1000",
}
"""What a field with this name holds, where the default of its schema or the name of the topic says too
little.
"""
ABSENT = {"transactional_id", "group_instance_id", "instance_id", "subscribed_topic_regex", "error_message"}


def plausible(cls: type[Struct], version: int, values) -> Struct:
    """A message or a part of one with something sensible in each field of this version."""
    made = cls()
    for name, declared in resolved(cls).items():
        if version in declared.versions:
            one = _value(name, declared, version, values, getattr(made, name))
            setattr(made, name, [one] if declared.is_array else one)
    return made


def _value(name, declared, version, values, default):
    if declared.struct is not None:
        return plausible(declared.struct, version, values)
    kind = declared.kind.name
    if name in ABSENT and declared.is_nullable(version):
        return None
    if kind == "string":
        found = values.get(name, TOPIC)
        return found if isinstance(found, str) else TOPIC
    if kind == "uuid":
        return values.get(name, bytes(16))
    if kind == "records":
        return batch(b"a", b"b")
    if kind == "bytes":
        return b""
    if kind == "bool":
        return False
    if name.endswith("_ms") and not declared.is_array:
        return 20
    found = values.get(name, 0 if declared.is_array or default is None else default)
    return found if isinstance(found, int) else 0


class Attacker:
    """Draws requests and judges what the broker makes of them."""

    def __init__(self, port: int, rng: random.Random) -> None:
        self._port = port
        self._rng = rng
        self._topic_id = bytes(16)
        self.outcomes: Counter[tuple[ApiKey, str]] = Counter()
        """How often each API was answered without and with an error, or closed the connection."""

    def round(self, apis: list[ApiKey]) -> None:
        """One request of each API, several at a time.
        Raises AssertionError with the request that was judged wrong.
        """
        self._make_topic()
        requests = [self._draw(api) for api in apis]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for api, outcome in pool.map(self._ask, requests):
                self.outcomes[api, outcome] += 1

    def _make_topic(self) -> None:
        """One of the requests before may have deleted it."""
        wanted = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        with WirePeer(self._port) as peer:
            peer.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5000))
            found = peer.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 10).topics
        self._topic_id = found[0].topic_id

    def _draw(self, key):
        """(message, version, frame)."""
        api = APIS[key]
        while True:
            version = self._rng.randint(api.min_version, api.max_version)
            values = PLAUSIBLE | {"topic_id": self._rng.choice([self._topic_id, bytes(16)])}
            message = plausible(api.request, version, values)
            for _ in range(self._rng.choice([0, 1, 1, 2, 4])):
                make_absurd(self._rng, message)
            for struct, name, _ in places(message):
                value = getattr(struct, name)
                if isinstance(value, int) and (name.endswith("_ms") or name == "session_timeout"):
                    setattr(struct, name, min(value, WAIT_MS_MAX))
                elif name == "controller_epoch":
                    struct.controller_epoch = min(value, CONTROLLER_EPOCH_MAX)
            try:
                return message, version, frame_of(message, version)
            except (ProtocolError, ValueError, TypeError):
                continue  # what is absurd in it cannot be said in this version

    def _ask(self, request) -> tuple[ApiKey, str]:
        message, version, frame = request
        with WirePeer(self._port) as peer:
            peer.socket.settimeout(PATIENCE_S)
            try:
                peer.send(frame)
                if message.api is ApiKey.PRODUCE and message.acks == 0:
                    return message.api, "unanswered"
                answer = peer.response()
            except TimeoutError:
                raise AssertionError(f"no answer in {PATIENCE_S} s to v{version} of {message!r}") from None
            except ConnectionError:
                answer = None
        if answer is None:
            return message.api, "closed"
        return message.api, _judged(message, version, answer)


def _judged(message, version: int, answer: bytes) -> str:
    try:
        response = decode_response(message.api, version, answer)[1]
    except ProtocolError as error:
        # A version of ApiVersions that is not known is answered in version 0; none is drawn here.
        raise AssertionError(f"v{version} of {message!r} got an unreadable answer: {error}") from error
    codes = {
        getattr(struct, name)
        for struct, name, _ in places(response)
        if name == "error_code" or name.endswith("_error_code")
    }
    strange = codes.difference(ErrorCode)
    assert not strange, f"v{version} of {message!r} got {strange}: {response!r}"
    return "refused" if codes - {0} else "answered"


def is_well(port: int) -> None:
    """The broker answers others as before."""
    with WirePeer(port) as peer:
        assert peer.ask(ApiVersionsRequest()).error_code == 0


def errors_in(log: Path) -> list[str]:
    """Lines of the log that say that something was not foreseen, each with some that follow it."""
    lines = log.read_text(errors="replace").splitlines()
    return [
        "\n".join(lines[place : place + 40])
        for place, line in enumerate(lines)
        if " ERROR " in line or line.startswith("Traceback")
    ]


def apis_of_clients() -> list[ApiKey]:
    return [api.key for api in APIS.values() if api.key not in FROM_CONTROLLERS]


def main() -> int:
    from serving import ServeProcess

    parser = argparse.ArgumentParser(description="Mutate fields of requests of every API.")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31))
    arguments = parser.parse_args()
    print(f"--seed {arguments.seed}")
    rng = random.Random(arguments.seed)
    for apis in (apis_of_clients(), sorted(FROM_CONTROLLERS)):
        until = time.monotonic() + 30 * arguments.minutes
        with tempfile.TemporaryDirectory() as folder:
            server = ServeProcess(Path(folder) / "data", *OPTIONS)
            server.wait_until_ready()
            try:
                attacker = Attacker(server.port, rng)
                while time.monotonic() < until:
                    attacker.round(apis)
                    is_well(server.port)
                found = errors_in(server.log)
                if found:
                    print("\n\n".join(found[:5]))
                    return 1
                assert server.stop() == 0
            finally:
                if server.runs:
                    server.kill()
        for (api, outcome), count in sorted(attacker.outcomes.items()):
            print(f"{api.name} {outcome}: {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
