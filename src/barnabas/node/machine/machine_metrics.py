"""The metrics of all brokers of a machine as one text, each sample with the label ``broker``.

The parent asks each broker's own endpoint, all at once. A broker that does not answer is left out, and its
``barnabas_machine_broker_up`` is 0: the others' figures are worth more than none.

It shows no certificate that the parent could check, and while it ends somebody else of this machine may take
its port. So the password is never sent there, but a token that is good for this one broker's metrics alone
(`token_of`), which the broker has from the fork.
"""

import asyncio
import hmac
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from barnabas.core.eventlog import EventLog
from barnabas.node.machine.broker_processes import BrokerLife
from barnabas.node.metrics_endpoint import MetricsAccess

_log = EventLog("node.machine_metrics")

ANSWER_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 << 20
_LINES_A_SLICE: Final = 2000


def token_of(secret: bytes, broker_id: int) -> str:
    """By which a broker knows its parent."""
    return hmac.digest(secret, b"%d" % broker_id, "sha256").hex()


class MachineMetrics:
    """What a scrape of the machine says."""

    def __init__(
        self, states: Callable[[], Sequence[BrokerLife]], access: MetricsAccess, secret: bytes
    ) -> None:
        """`access` is that of the brokers' endpoints, which is the machine's too; `secret` is that of
        `token_of`.
        """
        self._states = states
        self._access = access
        self._secret = secret

    async def __call__(self) -> bytes:
        states = self._states()
        texts = await asyncio.gather(*map(self._text_of, states))
        told = {state.id: text for state, text in zip(states, texts, strict=True) if text is not None}
        up = [(state.id, int(state.id in told)) for state in states]
        restarts = [(state.id, state.restarts) for state in states]
        own = _family("barnabas_machine_broker_up", "gauge", "Whether a broker's metrics are here.", up)
        own += _family(
            "barnabas_machine_broker_restarts_total",
            "counter",
            "How often a broker was started again.",
            restarts,
        )
        return own + await merged(told)

    async def _text_of(self, state: BrokerLife) -> bytes | None:
        if not state.metrics_url:
            return None
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._get(state)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError) as error:
            reason = str(error) or type(error).__name__
            _log.warning("broker.metrics_missing", broker=state.id, reason=reason)
            return None

    async def _get(self, state: BrokerLife) -> bytes:
        url = state.metrics_url
        parts = urlsplit(url)
        context = None
        if parts.scheme == "https":
            # A child of this process, at the address that it has named; if it is not, it learns no password.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        head = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        if self._access.password is not None:
            head += f"Authorization: Bearer {token_of(self._secret, state.id)}\r\n"
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
        try:
            writer.write(f"{head}\r\n".encode())
            status = await reader.readline()
            answer = bytearray()
            while len(answer) <= ANSWER_BYTES_MAX and (piece := await reader.read(1 << 18)):
                answer += piece
        finally:
            writer.close()
        if b" 200 " not in status or len(answer) > ANSWER_BYTES_MAX:
            raise ValueError(f"{url} answers {status.decode(errors='replace').strip()}, {len(answer)} bytes")
        fields, _, body = bytes(answer).partition(b"\r\n\r\n")
        if b"Content-Length: %d" % len(body) not in fields.split(b"\r\n"):
            # A broker that ends meanwhile: of its last number only some digits may be there.
            raise ValueError(f"{url} breaks off after {len(body)} bytes")
        return body


def _family(name: str, kind: str, doc: str, figures: Sequence[tuple[int, int]]) -> bytes:
    lines = [f"# HELP {name} {doc}", f"# TYPE {name} {kind}"]
    lines += [f'{name}{{broker="{broker}"}} {figure}' for broker, figure in figures]
    return "".join(f"{line}\n" for line in lines).encode()


async def merged(texts: Mapping[int, bytes]) -> bytes:
    """One text of several: all samples of a metric stand together, as the format asks for."""
    families: dict[bytes, list[bytes]] = {}
    looked_at = 0
    for broker, text in texts.items():
        label = b'{broker="%d"' % broker
        family: list[bytes] = []
        is_new = True
        for line in text.split(b"\n"):
            looked_at += 1
            if looked_at % _LINES_A_SLICE == 0:
                await asyncio.sleep(0)
            if line.startswith(b"# HELP "):
                name = line.split(b" ", 3)[2]
                is_new = name not in families
                family = families.setdefault(name, [])
            if line.startswith(b"#"):
                if is_new:
                    family.append(line)
            elif line:
                family.append(_with_label(line, label))
    return b"".join(line + b"\n" for family in families.values() for line in family)


def _with_label(sample: bytes, label: bytes) -> bytes:
    """A sample is ``name value`` or ``name{label="value",...} value``; no name has a space or a brace."""
    name, brace, rest = sample.partition(b"{")
    if brace and b" " not in name:
        return b"%s%s,%s" % (name, label, rest)
    name, _, value = sample.partition(b" ")
    return b"%s%s} %s" % (name, label, value)
