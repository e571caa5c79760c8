"""Messages: what stands on its own on the wire, with a version of its own."""

from collections.abc import Generator
from struct import Struct as Packer
from typing import ClassVar, Final, Self, TypeVar

from barnabas.core.chunks import Buffer, Chunks, chunks_size, materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.decoder import Decoder, StepDecoder, compile_decoder, compile_step_decoder
from barnabas.protocol.encoder import Encoder, StepEncoder, compile_encoder, compile_step_encoder
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.layout import Layout, layout_of
from barnabas.protocol.schema import Struct, resolved
from barnabas.protocol.versions import Versions

T = TypeVar("T")

_API_VERSIONS: Final = ApiKey.API_VERSIONS
_FRAME_AND_ID: Final = Packer(">ii")
_FRAME_ID_AND_NO_TAGS: Final = Packer(">iix")


def declare(cls: "type[Message]", api: int | None, versions: str, flexible: str | None) -> None:
    """Gives a class of messages its key and ranges of versions, and a place for its codecs."""
    cls.api = None if api is None else ApiKey(api)
    cls.min_version, cls.max_version = Versions.parse(versions)
    cls.flexible_from = Versions.parse(flexible).first if flexible else None
    cls._encoders = {}
    cls._decoders = {}
    cls._step_encoders = {}
    cls._step_decoders = {}
    cls._element_encoders = {}


class Message(Struct):
    """A request, a response, or a piece of metadata that clients exchange through the broker."""

    __slots__ = ()

    api: ClassVar[ApiKey | None] = None
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_from: ClassVar[int | None] = None
    """The first version with compact lengths and tagged fields, None when there is none."""
    keeps_unknown_tags: ClassVar[bool] = True
    """Whether decoding keeps tagged fields that the schema does not know."""
    _encoders: ClassVar[dict[int, Encoder]]
    _decoders: ClassVar[dict[int, Decoder]]
    _step_encoders: ClassVar[dict[int, StepEncoder]]
    _step_decoders: ClassVar[dict[int, StepDecoder]]
    _element_encoders: ClassVar[dict[tuple[str, int], Encoder]]

    def __init_subclass__(
        cls, *, api: int | None = None, versions: str = "0", flexible: str | None = None
    ) -> None:
        """Keeps the options of the class statement: the API's key and ranges of versions."""
        super().__init_subclass__()
        declare(cls, api, versions, flexible)

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return cls.flexible_from is not None and version >= cls.flexible_from

    def encode(self, version: int) -> Chunks:
        """The message on the wire: one piece of bytes, or several when it carries records.

        Raises ProtocolError for a version that does not exist, a value that does not fit its type, or one
        that the version has no place for.
        """
        encode = self._encoders.get(version) or self.encoder(version)
        chunks = encode(self)
        return finished(self.encode_in_steps(version)) if chunks is None else chunks

    def encode_small(self, version: int) -> Chunks | None:
        """As `encode`, but None for a message so large that it would hold an event loop:
        `encode_in_steps` then.
        """
        encode = self._encoders.get(version) or self.encoder(version)
        return encode(self)

    def small_frame(self, correlation_id: int, version: int) -> Chunks | None:
        """As `encode_small`, for a response: the whole frame, its length and header included
        (`framing.encode_response`).
        """
        encode = self._encoders.get(version) or self.encoder(version)
        chunks = encode(self)
        return None if chunks is None else with_head(self, correlation_id, version, chunks)

    def encode_in_steps(self, version: int) -> Generator[None, None, Chunks]:
        """As `encode`, in pieces of work of about 0.1 ms with a ``yield`` after each."""
        encode = self._step_encoders.get(version)
        if encode is None:
            encode = self._step_encoders[version] = compile_step_encoder(self._layout(version))
        return encode(self)

    @classmethod
    def encode_element(cls, field: str, element: Struct, version: int) -> bytes | None:
        """An element of an array that `takes_encoded`, as it lies in messages of this version; None for a
        large one.

        Raises ProtocolError as `encode`.
        """
        encode = cls._element_encoders.get((field, version))
        if encode is None:
            layout = cls._layout(version)
            encode = compile_encoder(layout.of(resolved(cls)[field]))
            cls._element_encoders[field, version] = encode
        chunks = encode(element)
        return None if chunks is None else materialize(chunks)

    @classmethod
    def decode_in_steps(
        cls, buffer: Buffer, version: int, offset: int, elements_max: int
    ) -> Generator[None, None, tuple[Self, int]]:
        """As `decode`, in pieces of work of about 0.1 ms with a ``yield`` after each.

        Raises TooManyElementsError when all arrays together claim more elements than `elements_max`, before
        it makes them. Numbers of an array count as one for each eight.
        """
        decode = cls._step_decoders.get(version)
        if decode is None:
            layout = cls._layout(version)
            decode = compile_step_decoder(layout, keep_unknown_tags=cls.keeps_unknown_tags)
            cls._step_decoders[version] = decode
        return decode(buffer, offset, elements_max)  # type: ignore[return-value]

    @classmethod
    def decode(cls, buffer: Buffer, version: int, offset: int = 0) -> tuple[Self, int]:
        """The message at `offset`, and the offset behind it. Records are views of `buffer`, not copies.

        Raises ProtocolError for bytes that are not such a message.
        """
        decode = cls._decoders.get(version) or cls.decoder(version)
        return decode(buffer, offset)  # type: ignore[return-value]

    @classmethod
    def encoder(cls, version: int) -> Encoder:
        """The compiled encoder of a version; raises ProtocolError when there is no such version."""
        if version not in cls._encoders:
            cls._encoders[version] = compile_encoder(cls._layout(version))
        return cls._encoders[version]

    @classmethod
    def decoder(cls, version: int) -> Decoder:
        """The compiled decoder of a version; raises ProtocolError when there is no such version."""
        if version not in cls._decoders:
            cls._decoders[version] = compile_decoder(
                cls._layout(version), keep_unknown_tags=cls.keeps_unknown_tags
            )
        return cls._decoders[version]

    @classmethod
    def _layout(cls, version: int) -> Layout:
        if not cls.min_version <= version <= cls.max_version:
            reason = f"there is no such version, only {cls.min_version}-{cls.max_version}"
            raise ProtocolError(reason, message=cls.__name__, version=version)
        return layout_of(cls, version, flexible=cls.is_flexible(version))


def finished(work: Generator[None, None, T]) -> T:
    """The value of work in steps, all of them at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: T = end.value
            return value


def with_head(response: Message, correlation_id: int, version: int, body: Chunks) -> Chunks:
    """The whole frame of a response whose body is encoded."""
    size = len(body[0]) if len(body) == 1 else chunks_size(body)
    flexible_from = response.flexible_from
    if flexible_from is not None and version >= flexible_from and response.api is not _API_VERSIONS:
        head = _FRAME_ID_AND_NO_TAGS.pack(size + 5, correlation_id)
    else:
        head = _FRAME_AND_ID.pack(size + 4, correlation_id)
    body[0] = head + body[0]  # type: ignore[operator]
    return body


class Request(Message):
    """What a client, or another broker, sends."""

    __slots__ = ()

    keeps_unknown_tags: ClassVar[bool] = False


class Response(Message):
    """What a broker answers."""

    __slots__ = ()
