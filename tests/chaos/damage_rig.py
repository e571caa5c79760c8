"""Brokers whose files are damaged, and what is seen of them afterwards.

Every partition holds the numbers 0 to 59 in four segments of fifteen, three batches each; the last is the
active one. What is seen is a line of text: the numbers that readers get, what stops them, the warnings and
errors that the log has about it. The table in `damage` says the line that is expected.
"""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

from wire_peer import WirePeer, fetch

from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.records.batch import batch_headers, build_batch, decode_batch, has_valid_crc
from barnabas.records.record import Record
from serving import ServeProcess, free_port

STATES = ("clean", "killed", "running")
BATCHES = 12
RECORDS = 5
TOTAL = BATCHES * RECORDS
LIMIT_S = 60
KEPT = "kept"
"""A topic that no partition's damage touches."""
COMMITTED = 20
NOW_MS = int(time.time() * 1000)
AT_ONCE = 4
"""Brokers that are started side by side."""
TRACEBACK = "Traceback"
SAID_S = 5
LOADED_S = 8
ALL = f"0-{TOTAL - 1}"
SETTINGS = {
    "log.segment.bytes": 1000,
    "log.index.interval.bytes": 100,
    "log.index.size.max.bytes": 1024,
    "log.retention.ms": -1,
    "log.initial.task.delay.ms": 50,
    # What a running broker finds by itself, a second after an append, is in the text of the page.
    "barnabas.log.files.check.interval.ms": 3_600_000,
    "log.flush.offset.checkpoint.interval.ms": 100,
    "replica.high.watermark.checkpoint.interval.ms": 100,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 1000,
}
SECURED = {
    # What has no rules is open: a damaged rule is seen by what it closes.
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "delegation.token.secret.key": "secret",
}
"""Of brokers that keep rules and tokens."""
CONSEQUENCES = {"no_leader_elected", "partitions_without_leader", "replicas_offline", "log_dir.failed"}
"""What the controller and the node say after an event of the storage."""
_VARIES = [
    (re.compile(r"of cluster [\w-]+"), "of cluster ID"),
    (re.compile(r"is damaged \(.*?\): restore"), "is damaged (...): restore"),
]
"""What is not the same in each run: ids, and the page at which SQLite finds the damage."""
_LINE = re.compile(r"^\S+ \S+ (?:WARNING|ERROR) \S+ (\S+)(.*)$", re.MULTILINE)


class Partition:
    """The directory of a partition, as what damages it finds it."""

    def __init__(self, path):
        self.path = path

    @property
    def logs(self):
        return sorted(self.path.glob("*.log"))

    @property
    def active(self):
        return self.logs[-1]

    @property
    def closed(self):
        """The second of its four segments."""
        return self.logs[1]

    def beside(self, log, suffix):
        return log.with_suffix(suffix)


class DamagedBroker:
    """One broker on a folder; its log is read from where the damage was done."""

    def __init__(self, folder, more=None):
        """`more` are settings beside those of all."""
        self.settings = SETTINGS | (more or {})
        self.data = folder / "data"
        self.port = free_port()
        self.server = None
        self.said_ready = False
        self._read = 0

    def spawn(self):
        options = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        self.server = ServeProcess(self.data, *options, port=self.port)

    def start(self):
        self.spawn()
        self.server.wait_until_ready(LIMIT_S)

    def refusal(self):
        """None once it is ready; what it ended with when it does not start."""
        try:
            self.server.wait_until_ready(LIMIT_S)
        except BaseException as error:  # pytest's failure is no Exception
            return self.last_word() or str(error)
        self.said_ready = True
        return None

    def last_word(self):
        """The line that a broker ended with."""
        said = [line for line in self.log().splitlines() if line.startswith("Error")]
        if not said:
            return None
        line = said[-1].replace(str(self.data), "DATA")
        for pattern, instead in _VARIES:
            line = pattern.sub(instead, line)
        return line

    def peer(self):
        return WirePeer(self.port)

    def mark(self):
        """Forgets the log until here."""
        self._read = self.server.log.stat().st_size if self.server else 0

    def log(self):
        """What the log has since the mark."""
        return self.server.log.read_bytes()[self._read :].decode(errors="replace")

    def events(self, name=None):
        """The events that were logged; with the name of a topic, those that have its partition in a field."""
        found = {
            event
            for event, fields in _LINE.findall(self.log())
            if name is None or re.search(rf"\b{name}-0\b", fields)
        }
        if name is None and TRACEBACK in self.log():
            found.add(TRACEBACK)
        return tuple(sorted(found - CONSEQUENCES))

    def fill(self, topics):
        """Makes the topics, commits an offset and writes sixty records each;
        all of it is in the checkpoints then.
        """
        with self.peer() as peer:
            for topic in topics:
                peer.create(topic)
            commit(peer)
            for topic in topics:
                for number in range(BATCHES):
                    answer = peer.produce(topic, _batch(number))
                    assert answer.error_code == 0, (topic, answer)
        # Closed segments are below the recovery point, as in a broker that runs for long.
        self._wait_for("recovery-point-offset-checkpoint", dict.fromkeys(topics, TOTAL - 3 * RECORDS))
        self._wait_for(
            "replication-offset-checkpoint", dict.fromkeys(topics, TOTAL) | {"__consumer_offsets": 1}
        )

    def _wait_for(self, checkpoint, offsets):
        path = self.data / checkpoint
        deadline = time.monotonic() + LIMIT_S
        while True:
            lines = path.read_text().splitlines()[2:] if path.exists() else []
            found = {line.split()[0]: int(line.split()[2]) for line in lines}
            if all(found.get(topic, -1) >= offset for topic, offset in offsets.items()):
                return
            assert time.monotonic() < deadline, f"{checkpoint} stays behind: {found}"
            time.sleep(0.02)

    def close(self):
        if self.server is not None:
            self.server.kill()


def copy_of(template, folder):
    """A broker on a copy of another's files."""
    folder.mkdir(parents=True)
    subprocess.run(["cp", "-a", str(template.data), str(folder / "data")], check=True)
    return DamagedBroker(folder, template.settings)


def _batch(number):
    """Each batch is later than the one before, so that time indexes are the same in each run."""
    first = number * RECORDS
    records = [
        Record(n, NOW_MS + number, None, b"%d:%s" % (first + n, b"." * 40), []) for n in range(RECORDS)
    ]
    return build_batch(records, producer_id=7, producer_epoch=0, base_sequence=first)


# --- a table of damages -------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """What readers see of one damage, and what the broker's log says of it."""

    readers: str
    events: tuple[str, ...]

    def __str__(self):
        return " ".join([self.readers, *(f"`{each}`" for each in self.events)])


def look_at_partitions(damages, state, folder, expected=None):
    """One broker, a partition for each damage: all are done at once. What is seen, by damage."""
    names = [f"d{number:02}" for number in range(len(damages))]
    broker = DamagedBroker(folder)
    try:
        broker.start()
        broker.fill([KEPT, *names])
        if state == "clean":
            assert broker.server.stop() == 0
        elif state == "killed":
            broker.server.kill()
        broker.mark()
        for name, damage in zip(names, damages, strict=True):
            damage.strike(Partition(broker.data / f"{name}-0"))
        if state != "running":
            broker.start()
        assert seen(broker, KEPT) == ALL, "a partition without damage suffers too"
        readers = {name: seen(broker, name) for name in names}

        def look():
            return {
                damage.what: Seen(readers[name], broker.events(name))
                for name, damage in zip(names, damages, strict=True)
            }

        found = _when_said(look, expected)
        assert broker.server.stop() == 0, broker.server.tail()
        if TRACEBACK in broker.log():
            found[TRACEBACK] = Seen(broker.log()[broker.log().index(TRACEBACK) :][:2000], (TRACEBACK,))
        return found
    finally:
        broker.close()


def look_at_brokers(damages, state, folder, expected=None, more=None):
    """A broker for each damage, on a copy of the same files. What is seen, by damage."""
    template = DamagedBroker(folder, more)
    template.start()
    template.fill([KEPT])
    if state == "killed":
        template.server.kill()
    else:
        assert template.server.stop() == 0
    found = {}
    for some in (damages[first : first + AT_ONCE] for first in range(0, len(damages), AT_ONCE)):
        brokers = [copy_of(template, folder / str(len(found) + number)) for number in range(len(some))]
        try:
            for damage, broker in zip(some, brokers, strict=True):
                if state != "running":
                    damage.strike(broker.data)
                broker.spawn()
            for damage, broker in zip(some, brokers, strict=True):
                found[damage.what] = _look_at(broker, damage, state, expected)
        finally:
            for broker in brokers:
                broker.close()
    return found


def _look_at(broker, damage, state, expected):
    if state == "running":
        refusal = broker.refusal()
        assert refusal is None, f"{refusal}: {broker.server.tail()}"
        broker.mark()
        damage.strike(broker.data)
        readers = seen_whole(broker)
    else:
        readers = seen_at_start(broker)
    wanted = expected and {damage.what: expected.get(damage.what)}
    found = _when_said(lambda: {damage.what: Seen(_end_of(broker) or readers, broker.events())}, wanted)
    broker.close()
    return found[damage.what]


def _end_of(broker):
    return f"ends: {broker.last_word()}" if broker.server.process.poll() == 1 and broker.said_ready else None


def _when_said(look, expected):
    """What is seen once the log says what is expected: some of it comes from threads and timers."""
    deadline = time.monotonic() + (0.5 if expected is None else SAID_S)
    while True:
        found = look()
        settled = expected is not None and all(str(found[what]) == expected.get(what) for what in found)
        if settled or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


# --- what is seen -------------------------------------------------------------------------------------------


def seen(broker, topic):
    """The numbers that a reader gets, as ranges; what stops it; whether a write is taken."""
    with broker.peer() as peer:
        numbers, stopped = read(peer, topic)
    found = _ranges(numbers) or "nothing"
    if stopped:
        found += f", then {stopped}"
    with broker.peer() as peer:
        code = ErrorCode(peer.produce(topic, _batch_after()).error_code)
    return found if code is ErrorCode.NONE else f"{found}; writes get {code.name}"


def read(peer, topic):
    """The numbers in their order, and the error that ended it."""
    numbers = []
    places = []
    for timestamp in (-2, -1):
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
        )
        answer = peer.ask(request).topics[0].partitions[0]
        if answer.error_code:
            return [], ErrorCode(answer.error_code).name
        places.append(answer.offset)
    offset, end = places
    while offset < end:
        try:
            answer = peer.ask(fetch(topic, offset)).responses[0].partitions[0]
        except AssertionError:
            return numbers, f"a closed connection at {offset}"
        if answer.error_code:
            return numbers, f"{ErrorCode(answer.error_code).name} at {offset}"
        before = offset
        try:
            for header in batch_headers(answer.records or b""):
                if not has_valid_crc(answer.records, header):
                    return numbers, f"a batch with a bad CRC at {header.base_offset}"
                for record in decode_batch(answer.records, header.position):
                    number = record.value.partition(b":")[0]
                    if record.offset >= offset and number.isdigit():
                        numbers.append(int(number))
                offset = max(offset, header.last_offset + 1)
        except Exception as error:
            return numbers, f"a batch that readers refuse ({type(error).__name__}) at {offset}"
        if offset == before:
            return numbers, f"no more although the log ends at {end}"
    return numbers, None


def seen_whole(broker):
    """What readers see of a broker whose own files were damaged, and of a group's offset."""
    try:
        kept = seen(broker, KEPT)
        with broker.peer() as peer:
            offset = committed(peer)
    except (OSError, AssertionError):
        broker.server.process.wait(LIMIT_S)
        return f"ends: {broker.last_word()}"
    return kept if offset == COMMITTED else f"{kept}; the group's offset is {offset}"


def seen_at_start(broker):
    """The same of a broker that has just been started."""
    refusal = broker.refusal()
    return seen_whole(broker) if refusal is None else f"refuses: {refusal}"


def _batch_after():
    now = int(time.time() * 1000)
    return build_batch([Record(0, now, None, b"after", [])])


def _ranges(numbers):
    """``0-14, 30-59`` for what is read in this order."""
    runs = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" for first, last in runs)


def commit(peer):
    """A group's offset."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=COMMITTED)
    topic = OffsetCommitRequestTopic(name=KEPT, partitions=[partition])
    request = OffsetCommitRequest(
        group_id="group", generation_id_or_member_epoch=-1, member_id="", topics=[topic]
    )
    assert not _find_coordinator(peer, LIMIT_S), "no coordinator"
    code = peer.ask(request, 7).topics[0].partitions[0].error_code
    assert code == 0, code


def committed(peer):
    """What the coordinator says of it, once it has had the time to load the group."""
    if code := _find_coordinator(peer, LOADED_S):
        return ErrorCode(code).name
    request = OffsetFetchRequest(
        group_id="group", topics=[OffsetFetchRequestTopic(name=KEPT, partition_indexes=[0])]
    )
    deadline = time.monotonic() + LOADED_S
    while True:
        answer = peer.ask(request, 5)
        code = answer.error_code or answer.topics[0].partitions[0].error_code
        if not code:
            return answer.topics[0].partitions[0].committed_offset
        if time.monotonic() > deadline:
            return ErrorCode(code).name
        time.sleep(0.02)


def _find_coordinator(peer, seconds):
    """Waits until the group has a coordinator; the error that there is after so many seconds, 0 for none."""
    deadline = time.monotonic() + seconds
    while code := peer.ask(FindCoordinatorRequest(key="group", key_type=0), 2).error_code:
        if time.monotonic() > deadline:
            return code
        time.sleep(0.02)
    return 0
