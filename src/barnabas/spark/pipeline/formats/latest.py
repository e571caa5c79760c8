"""The newest version of a subject of a schema registry (``schema = "latest"``)."""

import base64
from dataclasses import dataclass
from typing import Any, Final

from barnabas.operations.schemas.registry import RegisteredSchema, RegistryClient
from barnabas.spark.errors import PipelineError

_KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}


class NoSubjectError(PipelineError):
    """The registry does not have the subject."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject."""

    subject: str
    number: int
    id: int
    schema: RegisteredSchema
    descriptors: str = ""
    """Of Protobuf: the ``FileDescriptorSet`` with all that the file imports, in base64."""

    def __str__(self) -> str:
        return f"version {self.number} of {self.subject}, id {self.id}"


@dataclass(frozen=True, slots=True)
class LatestSchema:
    """Where the newest version is asked for."""

    kind: str
    """The format's."""
    registry: RegistryClient
    subject: str
    message: str = ""
    """Of Protobuf: the message's full name, empty for the first one of the file."""

    def ask(self) -> Version:
        """The newest version. Raises RegistryError, and PipelineError where there is none of the kind."""
        found = self.registry.latest(self.subject)
        if found is None:
            raise NoSubjectError(f"format.schema: the registry has no subject {self.subject}")
        number, identity, schema = found
        if schema.kind != _KINDS[self.kind]:
            raise PipelineError(
                f"format.kind is {self.kind}, and the newest schema of {self.subject} is of the kind "
                f"{schema.kind}"
            )
        descriptors = self._descriptors() if self.kind == "protobuf" else ""
        return Version(self.subject, number, identity, schema, descriptors)

    def _descriptors(self) -> str:
        """The compiled file, which registries give as well as its text."""
        from google.protobuf import descriptor_pb2

        found = self.registry.latest(self.subject, compiled=True)
        assert found is not None
        _, _, schema = found
        files = descriptor_pb2.FileDescriptorSet()
        names, texts = [*schema.names, ""], [*schema.references, schema.text]
        for name, text in zip(names, texts, strict=True):
            file = files.file.add()
            try:
                file.MergeFromString(base64.b64decode(text, validate=True))
            except Exception:
                raise PipelineError(
                    f"format.schema: {self.registry.url} does not give the compiled form of {self.subject} "
                    "(format=serialized): name a descriptor set of protoc instead of latest"
                ) from None
            file.name = name or file.name or "value.proto"
        _add_well_known(files)
        return base64.b64encode(files.SerializeToString()).decode("ascii")


def _add_well_known(files: Any) -> None:
    """Puts Google's own files, such as Timestamp's, before those that import them."""
    import importlib

    from google.protobuf import descriptor_pb2

    have = {file.name for file in files.file}
    for name in sorted({one for file in files.file for one in file.dependency} - have):
        if name.startswith("google/protobuf/"):
            module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            known = descriptor_pb2.FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(known)
            files.file.insert(0, known)
