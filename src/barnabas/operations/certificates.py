"""Until when the certificates of brokers are valid, as they show them at their listeners."""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.client.channel_security import tls_of
from barnabas.client.metadata import Broker
from barnabas.core.errors import BarnabasError
from barnabas.operations.errors import OperationError

_ABREAST: Final = 10


class CertificateReader:
    """Shakes hands with brokers and looks at what they show; nothing is said to them, nothing is trusted."""

    def __init__(self, config: Mapping[str, Any], timeout_s: float = 5.0) -> None:
        """`config` is that of a client with ``security.protocol`` SSL or SASL_SSL. Raises ConfigError."""
        context = tls_of(config)
        assert context is not None, "a client without TLS sees no certificates"
        # One that has expired, or is of another name, is looked at, too.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._context = context
        self._timeout_s = timeout_s

    async def __call__(self, brokers: Iterable[Broker]) -> dict[int, int | BarnabasError]:
        """By broker, the end of its certificate in ms since 1970, or why it is not known."""
        turns = asyncio.Semaphore(_ABREAST)

        async def ask(broker: Broker) -> int | BarnabasError:
            async with turns:
                try:
                    return await self._end_ms(broker)
                except (OSError, TimeoutError, ValueError) as error:
                    what = f"{broker.host}:{broker.port} shows no certificate"
                    return OperationError(f"{what}: {error or 'too slow'}")

        there = list(brokers)
        return {
            broker.node_id: found
            for broker, found in zip(there, await asyncio.gather(*map(ask, there)), strict=True)
        }

    async def _end_ms(self, broker: Broker) -> int:
        from cryptography import x509

        async with asyncio.timeout(self._timeout_s):
            _, writer = await asyncio.open_connection(
                broker.host, broker.port, ssl=self._context, server_hostname=broker.host
            )
            try:
                shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            finally:
                writer.transport.abort()
        return int(x509.load_der_x509_certificate(shown).not_valid_after_utc.timestamp() * 1000)
