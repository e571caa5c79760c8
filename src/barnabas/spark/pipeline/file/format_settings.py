"""The section ``[format]`` of a pipeline's file: how the bytes of records become columns."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.spark import ddl
from barnabas.spark.errors import FormatError, PipelineError
from barnabas.spark.pipeline.file.section import Section
from barnabas.spark.pipeline.formats import CORRUPT
from barnabas.spark.pipeline.rows.debezium import DECIMALS, TIMES, Envelope

if TYPE_CHECKING:
    from barnabas.operations.schemas.registry import RegistryClient
    from barnabas.spark.pipeline.formats.decoder import Decoder
    from barnabas.spark.pipeline.formats.latest import LatestSchema, Version
    from barnabas.spark.pipeline.formats.registry import RegistrySchemas
    from barnabas.spark.pipeline.formats.schema_ids import SchemaIds

_WHOLE_TYPE: Final = re.compile(r"\s*(array|map|struct)\s*<", re.IGNORECASE)
LATEST: Final = "latest"
"""The word for the newest schema that the registry has."""


@dataclass(frozen=True, slots=True)
class Format:
    """How the values of records become columns."""

    kind: str
    schema: str = ""
    """The fields of JSON and CSV as Spark's DDL says them."""
    delimiter: str = ","
    keep_malformed: bool = False
    """Whether a value that does not fit becomes a row with it in ``_corrupt_record``;
    else it ends the query.
    """
    decoder: "Decoder | None" = None
    """What reads the values of a format with a schema of its own, such as Avro."""
    ids: "SchemaIds | RegistrySchemas | None" = None
    """Which ids of a schema registry the values may have, where they have one."""
    envelope: Envelope | None = None
    """What is around the rows of a database's changes."""
    key: "Format | None" = None
    """How the keys of records become columns; they stay bytes without it."""
    framed: bool = False
    """Whether JSON has a registry's frame before it."""
    latest: "LatestSchema | None" = None
    """Where the schema is asked for when a run begins; until then there is none."""
    version: "Version | None" = None
    """The one that was found."""
    registry: "RegistryClient | None" = None
    by_topic: bool = False
    """Whether each topic has a schema of its own: `of_topic` has it."""
    topics: "Mapping[str, Format]" = field(default_factory=dict)
    """The formats of topics that the file names."""
    others: bool = True
    """Whether other topics are read too."""
    notes_folder: str = ""
    """The folder of the checkpoint, from its top, that says which version of the schema the table has."""

    def of_topic(self, topic: str) -> "Format":
        """How one topic's values become columns. Raises PipelineError where the file has no schema of it."""
        found = self.topics.get(topic)
        if found is None:
            if not self.others:
                raise PipelineError(
                    f'the topic {topic} has no schema: give it [format.topics."{topic}"], or give all others '
                    "format.schema"
                )
            found = _own_subject(replace(self, by_topic=False, topics={}), f"{topic}-value")
            if found.key is not None:
                found = replace(found, key=_own_subject(found.key, f"{topic}-key"))
        return replace(found, notes_folder=f"topics/{topic}")


def _own_subject(form: Format, subject: str) -> Format:
    if form.latest is None or form.latest.subject:
        return form
    return replace(form, latest=replace(form.latest, subject=subject))


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """What a format depends on that other sections of the file say."""

    folder: Path
    """The file's own."""
    checkpoint: Path
    topics: Sequence[str]
    by_topic: bool = False
    """Whether each topic has a table of its own."""

    def subject(self, section: Section, what: str) -> str:
        """The subject of what `what` says, "value" or "key": that of `section` if it names one; empty where
        it is each topic's own. Raises PipelineError where there is none.
        """
        named = section.optional_text("subject")
        if named is not None:
            return named
        if len(self.topics) == 1:
            return f"{self.topics[0]}-{what}"
        if self.by_topic:
            return ""
        raise section.wrong(
            "subject",
            f"is missing: it is TOPIC-{what} by itself for one topic, or with {{topic}} in sink.path",
        )


def format_of(
    section: Section, folder: Path, checkpoint: Path, topics: Sequence[str], *, by_topic: bool = False
) -> Format:
    """The format that a section says, of a pipeline that reads these topics; none where it goes by a pattern.
    With `by_topic` each has a table of its own, and may have a schema of its own. Raises PipelineError.
    """
    given = section.over("topics")
    if given and not by_topic:
        raise section.wrong(
            "topics", "needs a table for each topic: {topic}, and no other column, in sink.path"
        )
    named = {topic: _format_of(one, _Elsewhere(folder, checkpoint, (topic,))) for topic, one in given.items()}
    if named and "schema" not in section and section.choice("kind", FORMATS, "binary") != "binary":
        kind = section.text("kind")
        return Format(kind, by_topic=True, topics=named, others=False)
    found = _format_of(section, _Elsewhere(folder, checkpoint, topics, by_topic))
    own = any(
        one is not None and one.latest is not None and not one.latest.subject for one in (found, found.key)
    )
    return replace(found, by_topic=bool(named) or own, topics=named)


def _format_of(section: Section, elsewhere: _Elsewhere) -> Format:
    kind = section.choice("kind", FORMATS, "binary")
    envelope = _envelope(section, kind)
    found = Format(kind) if kind == "binary" else _with_schema(section, kind, elsewhere)
    key = _key_format(section.section("key"), found, elsewhere) if "key" in section else None
    found = replace(found, envelope=envelope, key=key)
    section.close()
    if envelope is not None and key is None:
        raise section.wrong("key", "is missing: the tombstone behind a delete has no other")
    if envelope is not None and found.keep_malformed:
        raise section.wrong("malformed", "must be fail with an envelope: what is no change has no key")
    if kind in {"json", "csv"} and found.latest is None:
        _check_columns(section, found.schema)
    if kind == "json" and envelope is not None and found.latest is not None:
        raise section.wrong("schema", "must be the columns of the rows with an envelope in JSON")
    if found.decoder is not None and found.keep_malformed and CORRUPT in found.decoder.type.names:
        raise section.wrong("schema", f"has a field {CORRUPT}, which malformed values are kept in")
    return found


def _with_schema(section: Section, kind: str, elsewhere: _Elsewhere) -> Format:
    confluent = kind in _FRAMED and section.choice("header", ("none", "confluent"), "none") == "confluent"
    registry = None
    if "registry" in section:
        if not confluent:
            raise section.wrong(
                "registry", 'has no use without header = "confluent", with json, avro or protobuf'
            )
        if "schemaIds" in section:
            raise section.wrong("schemaIds", "has no use with a registry, which knows each schema")
        registry = section.section("registry")
    latest: LatestSchema | None = None
    decoder: Decoder | None = None
    ids: SchemaIds | RegistrySchemas | None = None
    client = _registry(registry, elsewhere.folder) if registry is not None else None
    if section.text("schema") == LATEST and kind in _FRAMED:
        if registry is None or client is None:
            raise section.wrong("schema", "is 'latest', and format.registry is missing, which would say it")
        latest = _latest(section, kind, registry, client, elsewhere)
    elif kind in _DECODERS:
        decoder = _decoder(section, kind, elsewhere.folder, confluent=confluent)
    if registry is not None:
        registry.optional_text("subject")  # allowed beside a schema of a file too
        registry.close()
    if kind in _DECODERS:
        ids = _schema_ids(section, elsewhere.checkpoint, client, confluent=confluent)
    return Format(
        kind,
        section.text("schema"),
        section.text("delimiter", ",") if kind == "csv" else ",",
        section.choice("malformed", ("fail", "keep"), "fail") == "keep",
        decoder,
        ids,
        framed=confluent and kind == "json",
        latest=latest,
        registry=client,
    )


def _latest(
    section: Section, kind: str, registry: Section, client: "RegistryClient", elsewhere: _Elsewhere
) -> "LatestSchema":
    from barnabas.spark.pipeline.formats.latest import LatestSchema

    subject = elsewhere.subject(registry, "value")
    message = section.optional_text("message") if kind == "protobuf" else None
    return LatestSchema(kind, client, subject, message or "")


def _envelope(section: Section, kind: str) -> Envelope | None:
    """Debezium's, and how its rows are written where JSON has no types."""
    if "envelope" not in section:
        return None
    section.choice("envelope", ("debezium",))
    if kind == "json":
        return Envelope(
            section.choice("times", TIMES, "micros"), section.choice("decimals", DECIMALS, "precise")
        )
    if kind not in _DECODERS:
        raise section.wrong("envelope", f"has no use with kind = {kind!r}: it must be json, avro or protobuf")
    return Envelope()


def _key_format(section: Section, values: Format, elsewhere: _Elsewhere) -> Format:
    kind = section.choice("kind", ("json", "text", "avro"), "json")
    if kind == "avro":
        return _avro_key(section, values, elsewhere)
    found = Format(kind, section.text("schema"))
    section.close()
    _check_columns(section, found.schema)
    try:
        fields = ddl.columns(found.schema).fields
    except ddl.DdlError as error:
        raise section.wrong("schema", str(error)) from None
    if kind == "text" and len(fields) != 1:
        raise section.wrong("schema", f"has {len(fields)} columns: a text is one")
    return found


def _avro_key(section: Section, values: Format, elsewhere: _Elsewhere) -> Format:
    """Keys of the registry of the values, by a file or the newest version of ``TOPIC-key``."""
    from barnabas.spark.pipeline.formats.latest import LatestSchema
    from barnabas.spark.pipeline.formats.registry import RegistrySchemas

    if values.registry is None:
        raise section.wrong(
            "kind", "is 'avro', and format.registry is missing, which knows the keys' schemas"
        )
    latest = decoder = None
    if section.text("schema") == LATEST:
        latest = LatestSchema("avro", values.registry, elsewhere.subject(section, "key"))
    else:
        decoder = _decoder(section, "avro", elsewhere.folder, confluent=True)
    section.optional_text("subject")  # allowed beside a schema of a file too
    section.close()
    return Format(
        "avro",
        section.text("schema"),
        decoder=decoder,
        ids=RegistrySchemas(elsewhere.checkpoint, values.registry),
        latest=latest,
    )


def _check_columns(section: Section, schema: str) -> None:
    """Refuses what Spark would refuse later: a type that does not exist, a text without columns."""
    if schema.startswith("{"):
        return  # Spark's other form, its JSON
    try:
        if _WHOLE_TYPE.match(schema):
            ddl.whole_type(schema)
        else:
            ddl.columns(schema)
    except ddl.DdlError as error:
        raise section.wrong("schema", str(error)) from None


def _avro(_section: Section, schema: str, folder: Path, confluent: bool) -> "Decoder":
    from barnabas.spark.pipeline.formats.avro import AvroDecoder

    json = schema if schema.lstrip().startswith("{") else (folder / schema).read_text(encoding="utf-8")
    return AvroDecoder(json, confluent)


def _protobuf(section: Section, schema: str, folder: Path, confluent: bool) -> "Decoder":
    from barnabas.spark.pipeline.formats.protobuf import ProtobufDecoder

    return ProtobufDecoder((folder / schema).read_bytes(), section.text("message"), confluent)


_DECODERS: Final[dict[str, Callable[[Section, str, Path, bool], "Decoder"]]] = {
    "avro": _avro,
    "protobuf": _protobuf,
}
"""The formats with a schema of their own, each with what makes its decoder of the file's words."""
FORMATS: Final = ("binary", "json", "csv", *_DECODERS)
_FRAMED: Final = ("json", *_DECODERS)
"""Those that a schema registry has schemas of."""


def _decoder(section: Section, kind: str, folder: Path, *, confluent: bool) -> "Decoder":
    """What reads Avro or Protobuf by the schema of a file."""
    schema = section.text("schema")
    try:
        return _DECODERS[kind](section, schema, folder, confluent)
    except ImportError as error:
        raise section.wrong(
            "schema", f"needs a package that is not here ({error.name}): pip install 'barnabas[spark]'"
        ) from error
    except OSError as error:
        raise section.wrong("schema", f"is {schema!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise section.wrong("schema", f"is {schema!r}: that file is no text") from None
    except FormatError as error:
        raise section.wrong(error.key, str(error)) from None
    except ValueError as error:
        raise section.wrong("schema", f"is {schema!r}: {error}") from None


def _schema_ids(
    section: Section, checkpoint: Path, client: "RegistryClient | None", *, confluent: bool
) -> "SchemaIds | RegistrySchemas | None":
    """Which schemas' values are read, where they have ids."""
    if client is not None:
        from barnabas.spark.pipeline.formats.registry import RegistrySchemas

        return RegistrySchemas(checkpoint, client)
    named = section.wholes("schemaIds", most=2**31 - 1)
    if not confluent:
        if named:
            raise section.wrong("schemaIds", 'has no use without header = "confluent"')
        return None
    from barnabas.spark.pipeline.formats.schema_ids import SchemaIds

    return SchemaIds(checkpoint, named)


def _registry(section: Section, folder: Path) -> "RegistryClient":
    """The registry that says what ids mean."""
    from barnabas.network.tls_context import https_context
    from barnabas.operations.schemas.registry import RegistryClient

    url, ca = section.text("url"), section.optional_text("ca")
    if not re.fullmatch(r"https?://[^/@\s]+(/[^@\s]*)?", url):
        raise section.wrong(
            "url", "must be http://host:port or https://host:port; username and password are apart"
        )
    username, password = section.optional_text("username"), section.optional_text("password")
    if (username is None) != (password is None):
        raise section.missing("username" if username is None else "password", "is missing")
    try:
        authorities = "" if ca is None else (folder / ca).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise section.wrong("ca", f"is {ca!r}: {error.strerror}") from None
    try:
        if ca is not None:
            https_context(authorities)
    except ValueError as error:
        raise section.wrong("ca", f"is {ca!r}, which {error}") from None
    timeout_s = section.duration_ms("timeout", "10s") / 1000
    return RegistryClient(url.rstrip("/"), username or "", password or "", authorities, timeout_s)
