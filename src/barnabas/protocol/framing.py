"""Frames: a length of four bytes, a header, a message.

Grammar::

    frame            INT32 length, header, message
    request header   INT16 api_key, INT16 api_version, INT32 correlation_id,
                     STRING client_id (nullable, never compact; none for ControlledShutdown v0),
                     TAGS where the request's version is flexible
    response header  INT32 correlation_id, TAGS where the response's version is flexible,
                     but never for ApiVersions, so that a client can read it before it knows the broker

The length does not count itself. Functions that decode take frames without it.
"""

from collections.abc import Generator
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Final

from barnabas.core.chunks import Buffer, Chunks, chunks_size
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import Malformed, ProtocolError
from barnabas.protocol.message import Request, Response, with_head
from barnabas.protocol.registry import REQUESTS, RESPONSES
from barnabas.protocol.versions import VERSION_MAX
from barnabas.protocol.wire import STRING_LENGTH_MAX, skip_unknown_tags, whole_uvarint

_FIXED: Final = Struct(">hhi")
_FIXED_AND_LENGTH: Final = Struct(">hhih")
_CLIENT_ID_AT: Final = 10
_unpack_fixed: Final = _FIXED_AND_LENGTH.unpack_from
_FRAME_AND_FIXED: Final = Struct(">ihhi")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_NO_TAGS: Final = b"\0"
_FLEXIBLE_FROM: Final[dict[int, int]] = {}
"""By API key, remembered: a look-up in an enum for each request would cost as much as the header."""


class RequestHeader:
    """What stands before a request. `api_key` is a plain number: it may name no API at all."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None = None
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestHeader) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[int, int, int, str | None]:
        return self.api_key, self.api_version, self.correlation_id, self.client_id

    def __repr__(self) -> str:
        return (
            f"<RequestHeader {self.api_key} v{self.api_version} id={self.correlation_id} from "
            f"{self.client_id!r}>"
        )


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header, and the offset of the request behind it. Raises ProtocolError.

    An unknown key or version is no error here: the header alone decides what the answer is.
    """
    try:
        fixed: tuple[int, int, int, int] = _unpack_fixed(frame)
        key, version, correlation_id, length = fixed
        if version == 0 and key == ApiKey.CONTROLLED_SHUTDOWN:
            return RequestHeader(key, version, correlation_id), _FIXED.size
        end = _CLIENT_ID_AT + max(length, 0)
        if end > len(frame):
            raise Malformed(f"a client id of {length} bytes, more than there are")
        client_id = None
        if length >= 0:
            client_id = str(frame[_CLIENT_ID_AT:end], "utf-8", "replace")
        if _is_flexible(key, version):
            end = _skip_tags(frame, end)
    except (StructError, IndexError, Malformed) as error:
        raise ProtocolError(f"no header: {error}", message="RequestHeader", offset=0) from error
    return RequestHeader(key, version, correlation_id, client_id), end


def encode_request(header: RequestHeader, request: Request) -> Chunks:
    """The whole frame of a request, its length included. Raises ProtocolError."""
    body = request.encode(header.api_version)
    parts = []
    if header.api_key != ApiKey.CONTROLLED_SHUTDOWN or header.api_version != 0:
        parts.append(_client_id(header.client_id))
        if type(request).is_flexible(header.api_version):
            parts.append(_NO_TAGS)
    head = b"".join(parts)
    size = _FIXED.size + len(head) + chunks_size(body)
    fixed = _FRAME_AND_FIXED.pack(size, header.api_key, header.api_version, header.correlation_id)
    body[0] = b"".join((fixed, head, body[0]))  # type: ignore[arg-type]
    return body


def encode_response(correlation_id: int, response: Response, version: int) -> Chunks:
    """The whole frame of a response, its length included. Raises ProtocolError."""
    return with_head(response, correlation_id, version, response.encode(version))


def encode_response_in_steps(
    correlation_id: int, response: Response, version: int
) -> Generator[None, None, Chunks]:
    """As `encode_response`, in short pieces of work with a ``yield`` after each."""
    body = yield from response.encode_in_steps(version)
    return with_head(response, correlation_id, version, body)


def decode_response(api: ApiKey, version: int, frame: Buffer) -> tuple[int, Response]:
    """The correlation id and the response to a request of this API and version. Raises ProtocolError."""
    cls = RESPONSES[api]
    correlation_id = decode_correlation_id(frame)
    offset = _INT32.size
    if cls.is_flexible(version) and api != ApiKey.API_VERSIONS:
        try:
            offset = _skip_tags(frame, offset)
        except (IndexError, Malformed) as error:
            raise ProtocolError(f"no header: {error}", message="ResponseHeader", offset=offset) from error
    response, _ = cls.decode(frame, version, offset)
    return correlation_id, response


def decode_correlation_id(frame: Buffer) -> int:
    """The correlation id of a response, to find out which request it answers. Raises ProtocolError."""
    if len(frame) < _INT32.size:
        raise ProtocolError(f"no header: {len(frame)} bytes", message="ResponseHeader", offset=0)
    correlation_id: int = _INT32.unpack_from(frame)[0]
    return correlation_id


def _is_flexible(key: int, version: int) -> bool:
    first = _FLEXIBLE_FROM.get(key)
    if first is None:
        try:
            first = REQUESTS[ApiKey(key)].flexible_from
        except (KeyError, ValueError):
            return False
        first = _FLEXIBLE_FROM[key] = VERSION_MAX if first is None else first
    return version >= first


def _client_id(client_id: str | None) -> bytes:
    if client_id is None:
        return b"\xff\xff"
    text = client_id.encode()
    if len(text) > STRING_LENGTH_MAX:
        raise ProtocolError(f"a client id of {len(text)} bytes is too long", message="RequestHeader")
    return _INT16.pack(len(text)) + text


def _skip_tags(frame: Buffer, position: int) -> int:
    """The offset behind the tagged fields of a header: Kafka defines none, so none means anything."""
    if frame[position] == 0:
        return position + 1
    count, position = whole_uvarint(frame, position)
    return skip_unknown_tags(frame, position, len(frame), count)
