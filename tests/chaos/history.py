"""What a group did, out of its members' files, held against what was produced.

The promises: every record that was acknowledged is read by the group, with the value that was sent; no record
is left out on the way, that is: no record is read while one before it, in the same partition, was read by no
member. A record may be read several times: by the member that takes over before its commit.
"""

import json
from collections import Counter
from typing import NamedTuple


class Run(NamedTuple):
    """Records without a hole between them that a member was given at once."""

    time_ns: int
    member: str
    partition: int
    first: int
    count: int
    values: list[int] | None
    """None where the member does not say: Java's does not."""


class GroupHistory:
    """All runs of a group, in the order of time."""

    def __init__(self, folder):
        self.events = Counter()
        self.libraries = Counter()
        self.runs = []
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    continue  # the process was killed while it wrote
                found = json.loads(line)
                if isinstance(found, list):
                    self._take(path.stem, *found)
                else:
                    self._take_java(path.stem, found)
        self.runs.sort(key=lambda run: run.time_ns)

    def _take(self, member, what, time_ns, *fields):
        self.events[what] += 1
        if what == "read":
            partition, first, values = fields
            self.runs.append(Run(time_ns, member, partition, first, len(values), values))
        elif what == "starts":
            self.libraries[fields[0]] += 1

    def _take_java(self, member, event):
        """A line of `VerifiableConsumer`, which it prints before it commits."""
        match event["name"]:
            case "records_consumed":
                for each in event["partitions"]:
                    run = each["partition"], each["minOffset"], each["count"], None
                    self.runs.append(Run(event["timestamp"] * 1_000_000, member, *run))
            case "offsets_committed":
                self.events["refused"] += not event["success"]
            case "startup_complete":
                self.libraries["java"] += 1

    def reached(self):
        """By partition: how far everything was read."""
        reached = Counter()
        for run in self.runs:
            if run.first <= reached[run.partition]:
                reached[run.partition] = max(reached[run.partition], run.first + run.count)
        return reached

    def problems(self, produced):
        """Every broken promise; `produced` has the acknowledged records: value by (partition, offset)."""
        reached = Counter()
        read = {}
        for run in self.runs:
            if run.first > reached[run.partition]:
                yield (
                    f"{run.member} went on at {run.first} of partition {run.partition}, "
                    f"when the group had come to {reached[run.partition]}"
                )
            reached[run.partition] = max(reached[run.partition], run.first + run.count)
            for offset in range(run.first, run.first + run.count):
                place = run.partition, offset
                value = produced.get(place) if run.values is None else run.values[offset - run.first]
                known = read.setdefault(place, value)
                if known != value:
                    yield f"offset {offset} of partition {run.partition} was {known}, then {value}"
        missing = [place for place in produced if place not in read]
        if missing:
            yield f"{len(missing)} of {len(produced)} records were never read, {min(missing)} the first"
        wrong = [place for place, value in produced.items() if read.get(place, value) != value]
        if wrong:
            yield f"{len(wrong)} records were read as others, {min(wrong)} the first"

    def summary(self):
        """For people."""
        read = sum(run.count for run in self.runs)
        distinct = sum(self.reached().values())
        return (
            f"{read} reads of {distinct} records, {sum(self.libraries.values())} processes "
            f"{dict(self.libraries)}, "
            f"{self.events['refused']} commits refused, {self.events['gives up']} gave up"
        )
