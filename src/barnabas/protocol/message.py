"""Messages: what stands on its own on the wire, with a version of its own."""

from typing import ClassVar, Self

from barnabas.core.chunks import Buffer, Chunks
from barnabas.protocol.api import ApiKey
from barnabas.protocol.decoder import Decoder, compile_decoder
from barnabas.protocol.encoder import Encoder, compile_encoder
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.layout import layout_of
from barnabas.protocol.schema import Struct
from barnabas.protocol.versions import Versions


class Message(Struct):
    """A request, a response, or a piece of metadata that clients exchange through the broker."""

    __slots__ = ()

    api: ClassVar[ApiKey | None] = None
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    flexible_from: ClassVar[int | None] = None
    """The first version with compact lengths and tagged fields, None when there is none."""
    _encoders: ClassVar[dict[int, Encoder]]
    _decoders: ClassVar[dict[int, Decoder]]

    def __init_subclass__(
        cls, *, api: int | None = None, versions: str = "0", flexible: str | None = None
    ) -> None:
        """Keeps the options of the class statement: the API's key and ranges of versions."""
        super().__init_subclass__()
        cls.api = None if api is None else ApiKey(api)
        cls.min_version, cls.max_version = Versions.parse(versions)
        cls.flexible_from = Versions.parse(flexible).first if flexible else None
        cls._encoders = {}
        cls._decoders = {}

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
        return encode(self)

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
            cls._check_version(version)
            layout = layout_of(cls, version, flexible=cls.is_flexible(version))
            cls._encoders[version] = compile_encoder(layout)
        return cls._encoders[version]

    @classmethod
    def decoder(cls, version: int) -> Decoder:
        """The compiled decoder of a version; raises ProtocolError when there is no such version."""
        if version not in cls._decoders:
            cls._check_version(version)
            layout = layout_of(cls, version, flexible=cls.is_flexible(version))
            cls._decoders[version] = compile_decoder(layout)
        return cls._decoders[version]

    @classmethod
    def _check_version(cls, version: int) -> None:
        if not cls.min_version <= version <= cls.max_version:
            reason = f"there is no such version, only {cls.min_version}-{cls.max_version}"
            raise ProtocolError(reason, message=cls.__name__, version=version)


class Request(Message):
    """What a client, or another broker, sends."""

    __slots__ = ()


class Response(Message):
    """What a broker answers."""

    __slots__ = ()
