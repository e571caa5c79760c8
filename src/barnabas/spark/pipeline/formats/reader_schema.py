"""The schema that a run reads by: the file's, or the newest one of a subject of the registry.

Of many topics each has its own, and the version that it was read by last is kept in the checkpoint. It does
where the registry does not have the subject any more, and not where the registry is away:
docs/decisions/0099.

Which changes are taken is the table's business: new columns are added, others are refused before anything is
read (`evolution`).
"""

import base64
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from barnabas.operations.schemas.registry import RegisteredSchema, RegistryAwayError, RegistryError
from barnabas.spark.errors import FormatError, PipelineError
from barnabas.spark.pipeline.file.format_settings import Format
from barnabas.spark.pipeline.formats.latest import NoSubjectError, Version
from barnabas.spark.pipeline.tables.notes import damaged, read_note, replace_note

FILE: Final = "reader-schema.json"
KEY_FILE: Final = "reader-key-schema.json"


def settled(form: Format, checkpoint: Path) -> Format:
    """The format with the schema that it reads by; of one that is not `latest` itself. Raises
    RegistryAwayError, and PipelineError.
    """
    folder = checkpoint / form.notes_folder if form.notes_folder else None
    if form.key is not None:
        form = replace(form, key=_settled(form.key, folder and folder / KEY_FILE))
    return _settled(form, folder and folder / FILE)


def _settled(form: Format, path: Path | None) -> Format:
    """`path` is where the version of one topic of many is kept."""
    if form.latest is None or not form.latest.subject:  # without one each topic has its own
        return form
    try:
        version = form.latest.ask()
    except RegistryAwayError:
        raise
    except NoSubjectError:
        # A topic that was given up, with its subject, must not keep all others from being read.
        kept = _kept(path) if path is not None else None
        if kept is None:
            raise
        version = kept
    except RegistryError as error:
        raise PipelineError(f"format.registry: {error}") from None
    try:
        return _by(form, version)
    except FormatError as error:
        raise PipelineError(f"format.schema: {version} {error}") from None


def _by(form: Format, version: Version) -> Format:
    assert form.latest is not None
    if form.kind == "json":
        from barnabas.spark.pipeline.formats.json_schema import columns_of

        return replace(form, schema=columns_of(version.schema.text), version=version)
    if form.kind == "avro":
        from barnabas.spark.pipeline.formats.avro import AvroDecoder, whole_schema

        text = whole_schema(version.schema)
        return replace(form, decoder=AvroDecoder(text, confluent=True), version=version)
    from barnabas.spark.pipeline.formats.proto_text import message_name
    from barnabas.spark.pipeline.formats.protobuf import ProtobufDecoder

    try:
        message = form.latest.message or message_name(version.schema.text, [0])
    except ValueError:
        raise FormatError("has no message") from None
    decoder = ProtobufDecoder(base64.b64decode(version.descriptors), message, confluent=True)
    return replace(form, decoder=decoder, version=version)


def keep(form: Format, checkpoint: Path) -> None:
    """Writes down the versions that the table of one topic of many has taken."""
    for one, name in ((form, FILE), (form.key, KEY_FILE)):
        if one is not None and one.version is not None:
            folder = checkpoint / form.notes_folder
            folder.mkdir(parents=True, exist_ok=True)
            replace_note(folder / name, asdict(one.version))


def _kept(path: Path) -> Version | None:
    found = read_note(path, "schema")
    if found is None:
        return None
    try:
        return Version(**{**found, "schema": RegisteredSchema(**found["schema"])})
    except (TypeError, KeyError) as error:
        raise damaged(path, "schema", error) from None
