"""What a group did, out of its members' files, held against what was produced.

The promises: every record that was acknowledged is read by the group, with the value that was sent; no record is
left out on the way, that is: nobody reads a record while one before it, in the same partition, was read by nobody.
A record may be read several times: by whoever takes over before its commit.
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
    values: list[int]


class GroupHistory:
    """All runs of a group, in the order of time."""

    def __init__(self, folder):
        self.events = Counter()
        self.libraries = Counter()
        runs = []
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    continue  # the process was killed while it wrote
                what, time_ns, *fields = json.loads(line)
                self.events[what] += 1
                if what == "read":
                    runs.append(Run(time_ns, path.stem, *fields))
                elif what == "starts":
                    self.libraries[fields[0]] += 1
        self.runs = sorted(runs)

    def reached(self):
        """By partition: how far everything was read."""
        reached = Counter()
        for run in self.runs:
            if run.first <= reached[run.partition]:
                reached[run.partition] = max(reached[run.partition], run.first + len(run.values))
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
            reached[run.partition] = max(reached[run.partition], run.first + len(run.values))
            for offset, value in enumerate(run.values, run.first):
                known = read.setdefault((run.partition, offset), value)
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
        read = sum(len(run.values) for run in self.runs)
        distinct = sum(self.reached().values())
        return (
            f"{read} reads of {distinct} records, {sum(self.libraries.values())} processes {dict(self.libraries)}, "
            f"{self.events['refused']} commits refused, {self.events['gives up']} gave up"
        )
