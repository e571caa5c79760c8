"""A listener with SASL, spoken to in bare frames."""

import asyncio
from typing import Any

from network_harness import LOOPBACK, FunctionService, RawClient

from barnabas.core.scram import ScramCredential, ScramMechanism
from barnabas.network.clock import LoopClock
from barnabas.network.sasl.credentials import ServerCredentials
from barnabas.network.sasl.logins import server_mechanism
from barnabas.network.sasl.server import SaslListener
from barnabas.network.settings import SocketSettings
from barnabas.network.socket_server import SocketServer
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_alice="alice-secret" user_bob="bob-secret";'
)
SCRAM_256, SCRAM_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
CREDENTIALS = {
    (each, "alice"): ScramCredential.of_password(each, "alice-secret", b"salt of alice")
    for each in ScramMechanism
}
VERSIONS = [
    ApiVersion(api_key=key, min_version=0, max_version=version)
    for key, version in ((18, 3), (17, 1), (36, 2), (3, 12))
]


def find(mechanism, user):
    return CREDENTIALS.get((mechanism, user))


def listener(**settings: Any) -> SaslListener:
    names = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    mechanisms = {
        name: server_mechanism(name, JAAS if name == "PLAIN" else None, ServerCredentials(find), {})
        for name in names
    }
    return SaslListener(**{"mechanisms": mechanisms, "failure_delay_ms": 0, **settings})


def answer(peer, frame):
    """ApiVersions as a broker says it; to anything else, who is asking."""
    header, _ = decode_request_header(frame)
    if header.api_key == ApiKey.API_VERSIONS:
        if header.api_version > 3:
            return encode_response(header.correlation_id, ApiVersionsResponse(error_code=35), 0)
        return encode_response(
            header.correlation_id, ApiVersionsResponse(api_keys=VERSIONS), header.api_version
        )
    body = str(peer.principal).encode()
    return [len(body).to_bytes(4) + body]


def on_sasl(scenario, clock=LoopClock, service=answer, **settings: Any) -> SaslListener:
    """Runs a coroutine function with a server whose only listener asks for a log-in."""
    sasl = listener(**settings)

    async def main() -> None:
        server = SocketServer(clock(asyncio.get_running_loop()), SocketSettings())
        server.secure("PLAINTEXT", sasl)
        bound = server.bind(LOOPBACK)
        functions = FunctionService(service)
        server.start(functions)
        try:
            async with asyncio.timeout(20):
                await scenario(bound.port, functions)
        finally:
            await server.stop(grace_ms=0)
        assert not server.connections

    asyncio.run(main())
    return sasl


class SaslClientOnFrames(RawClient):
    """Says SASL's requests one by one."""

    async def call(self, request, version):
        """The response to a request."""
        header = RequestHeader(request.api, version, 7, "test")
        self.send(b"".join(encode_request(header, request)))
        frame = await self.response()
        if request.api is ApiKey.API_VERSIONS and frame[4:6] == b"\0\x23":
            version = 0
        return decode_response(request.api, version, memoryview(frame))[1]

    async def versions(self, version=3):
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        return await self.call(request, version)

    async def handshake(self, mechanism="PLAIN", version=1):
        return await self.call(SaslHandshakeRequest(mechanism=mechanism), version)

    async def authenticate(self, token, version=2):
        return await self.call(SaslAuthenticateRequest(auth_bytes=token), version)

    async def whoami(self) -> str:
        """What the broker takes this client for; a Metadata request serves."""
        return (await self.ask(b"\0\x03\0\0\0\0\0\1\xff\xff")).decode()
