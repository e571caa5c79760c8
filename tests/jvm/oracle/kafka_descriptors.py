"""The message descriptors inside Kafka's published jars, beside the classes of ours that they describe."""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import kafka_harness
from descriptor_tools import class_of, parse, versions_in

from barnabas.protocol.coordinator.offset_commit import LegacyOffsetCommitKey, OffsetCommitKey
from barnabas.protocol.coordinator.record import CoordinatorKey
from barnabas.protocol.message import Message

RELEASES: Final = (kafka_harness.ZOOKEEPER_ERA, kafka_harness.KRAFT_ERA)
JARS: Final = ("clients", "group-coordinator", "transaction-coordinator", "share-coordinator")
"""What has messages that a broker speaks or keeps; 3.9 has no share-coordinator jar."""
FIELDS_OF_4: Final = {
    "OffsetCommitValue": {"topicid"},
    "TransactionLogValue": {
        "previousproducerid",
        "nextproducerid",
        "nextproducerepoch",
        "clienttransactionversion",
    },
    "ConsumerGroupMetadataValue": {"metadatahash"},
    "ConsumerGroupTargetAssignmentMetadataValue": {"assignmenttimestamp"},
    "ConsumerGroupCurrentMemberAssignmentValue": {"assignmentepochs"},
    "ShareGroupTargetAssignmentMetadataValue": {"assignmenttimestamp"},
    "ShareGroupMetadataValue": {"metadatahash"},
    "ReadShareGroupStateSummaryResponse": {"leaderepoch"},
}
"""What Kafka 4 added to versions that 3.9 has already."""
UNREADABLE_IN_3_9: Final = {"ShareGroupMetadataValue", "ReadShareGroupStateSummaryResponse"}
"""Where the added field is not a tagged one: 3.9's early access to share groups has bytes of its own."""


class Descriptor(NamedTuple):
    """A descriptor of one release, and the Java class that Kafka generates from it."""

    release: str
    name: str
    java: str
    json: dict

    @property
    def is_spoken_by_a_controller_only(self) -> bool:
        """Whether no broker has this request on a listener of its own."""
        return not {"zkBroker", "broker"} & set(self.json["listeners"])


class Pair(NamedTuple):
    """One version of a message as Kafka describes it, and as we do."""

    theirs: Descriptor
    their_version: int
    cls: type[Message]
    version: int

    def __str__(self) -> str:
        return f"{self.theirs.name} v{self.their_version} of {self.theirs.release}"


def descriptors(release: str, folder: Path) -> dict[str, Descriptor]:
    """All descriptors in the jars of a release, by name."""
    found = {}
    for part in JARS:
        path = folder / f"kafka-{part}-{release}.jar"
        if path.exists():
            found |= descriptors_of(path, release)
    return found


def descriptors_of(path: Path, release: str) -> dict[str, Descriptor]:
    """All descriptors in one jar, by name."""
    with zipfile.ZipFile(path) as jar:
        return {one.name: one for one in _descriptors_in(jar, release)}


def _descriptors_in(jar: zipfile.ZipFile, release: str) -> Iterator[Descriptor]:
    names = jar.namelist()
    converters = {
        Path(name).name.removesuffix("JsonConverter.class").removesuffix("Data"): name
        for name in names
        if name.endswith("JsonConverter.class")
    }
    for name in names:
        if "common/message/" in name and name.endswith(".json"):
            json = parse(jar.read(name).decode())
            if not versions_in(json):  # 4.x keeps the names of what it removed
                continue
            key = json["name"].removesuffix("Data")
            java = converters[key].removesuffix("JsonConverter.class").replace("/", ".")
            yield Descriptor(release, json["name"], java, json)


def pairs(releases: Mapping[str, Mapping[str, Descriptor]]) -> Iterator[Pair]:
    """Every version of every message that Kafka describes and we have a class for."""
    for found in releases.values():
        for theirs in found.values():
            if class_of(theirs.json):
                yield from (_pair(theirs, version) for version in versions_in(theirs.json))


def _pair(theirs: Descriptor, version: int) -> Pair:
    cls = class_of(theirs.json)
    assert cls is not None
    if not issubclass(cls, CoordinatorKey):
        return Pair(theirs, version, cls, version)
    # Up to 3.9 a key's type was its version, and offsets had a key in two versions.
    record_type = theirs.json.get("apiKey", version)
    if cls is OffsetCommitKey and record_type == 0:
        cls = LegacyOffsetCommitKey
    assert cls.record_type == record_type
    return Pair(theirs, version, cls, 0)


def same_bytes(pair: Pair) -> bool:
    """Whether the release writes what we write: all but two messages of an early access."""
    return pair.theirs.release != kafka_harness.ZOOKEEPER_ERA or pair.cls.__name__ not in UNREADABLE_IN_3_9
