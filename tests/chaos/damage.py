"""What damaged files do to a broker: the kinds of damage, and docs/damage.md, which says what is seen of
each.

    python tests/chaos/damage.py          does them all to real brokers and writes the page

The tests do the same and compare: the page cannot say what the brokers do not do.
"""

import json
import random
import re
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from damaged_znodes import MEGABYTE, change_znode

PAGE = Path(__file__).parents[2] / "docs" / "damage.md"


class Damage(NamedTuple):
    """One kind of damage."""

    what: str
    strike: Callable
    """Does it, to a `damage_rig.Partition` or to the folder of a broker."""
    kafka: str
    """What Kafka 3.9 does, as its source says."""


# --- ways to damage a file ----------------------------------------------------------------------------------


def cut(path, count):
    """Takes bytes off the end."""
    with path.open("r+b") as file:
        file.truncate(max(0, path.stat().st_size - count))


def empty(path):
    path.write_bytes(b"")


def zeros(path, first=0, count=None):
    """Puts zeros over a part, or over all."""
    overwrite(path, first, bytes(path.stat().st_size - first if count is None else count))


def garbage(path, first=0, count=None):
    """Puts noise over a part, or over all; always the same noise."""
    size = path.stat().st_size if path.exists() else 64
    overwrite(path, first, random.Random(1).randbytes(max(64, size) - first if count is None else count))


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def overwrite(path, first, data):
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.seek(first)
        file.write(data)


def missing(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def directory(path):
    """A directory where the file was."""
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "inside").write_bytes(b"x")


def version(path):
    """A version that nobody knows, in a text file that begins with its number."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0].replace("0", "99"), *lines[1:]]))


def half(path):
    cut(path, path.stat().st_size // 2)


def _second_batch(log):
    """Where the second batch of a segment begins."""
    return 12 + struct.unpack_from(">i", log.read_bytes(), 8)[0]


# --- the table ----------------------------------------------------------------------------------------------

NO_CHECK = "after a clean stop no segment is read; after a kill"
CUTS = (
    "`LogSegment.recover` cuts at the first bad batch and deletes the segments behind it, `WARN Found "
    "invalid messages`"
)

SEGMENTS = [
    Damage("active segment: 10 bytes cut off", lambda p: cut(p.active, 10), kafka=f"{NO_CHECK} {CUTS}"),
    Damage("active segment: noise behind its end",
        lambda p: append(p.active, random.Random(2).randbytes(100)), kafka=f"{NO_CHECK} {CUTS}"),
    Damage("active segment: zeros behind its end", lambda p: append(p.active, bytes(200)),
        kafka=f"{NO_CHECK} {CUTS}"),
    Damage("active segment: noise inside its second batch",
        lambda p: garbage(p.active, _second_batch(p.active) + 70, 20),
        kafka=f"{NO_CHECK} {CUTS}; the CRC is not checked for readers"),
    Damage("active segment: empty", lambda p: empty(p.active), kafka="the log ends where the segment begins; "
                                                                     "nothing is said"),
    Damage("active segment: missing", lambda p: missing(p.active),
        kafka="`WARN Found an orphaned index file`; the log ends at the segment before"),
    Damage("active segment: a directory in its place", lambda p: directory(p.active),
        kafka="directories are passed over; as missing"),
    Damage("closed segment: 10 bytes cut off", lambda p: cut(p.closed, 10),
        kafka="above the recovery point as the active one; below it nothing is checked"),
    Damage("closed segment: noise inside its second batch",
        lambda p: garbage(p.closed, _second_batch(p.closed) + 70, 20),
        kafka="above the recovery point as the active one; below it readers find the bad CRC"),
    Damage("closed segment: an absurd length in its second batch",
        lambda p: overwrite(p.closed, _second_batch(p.closed) + 8, b"\x7f\xff\xff\xff"),
        kafka="above the recovery point as the active one; below it readers get CORRUPT_MESSAGE"),
    Damage("closed segment: empty", lambda p: empty(p.closed), kafka="readers go on at the next segment; "
                                                                     "nothing is said"),
    Damage("closed segment: missing", lambda p: missing(p.closed),
        kafka="`WARN Found an orphaned index file`; readers go on at the next segment"),
    Damage("closed segment: a directory in its place", lambda p: directory(p.closed),
        kafka="directories are passed over; as missing"),
    Damage("first segment: missing", lambda p: missing(p.logs[0]),
        kafka="the log starts at the second segment"),
]  # fmt: skip

INDEX = "rebuilt when it is missing; else checked only above the recovery point after a kill"
INDEXES = [
    Damage(f"{kind} of {'an' if which == 'active' else 'a'} {which} segment: {how.__name__}",
        lambda p, kind=kind, which=which, how=how: how(p.beside(getattr(p, which), f".{kind}")), kafka=INDEX)
    for kind in ("index", "timeindex")
    for which in ("closed", "active")
    for how in (half, zeros, garbage, missing, directory)
    if not (which == "active" and how in (half, zeros))
]  # fmt: skip
INDEXES += [
    Damage("txnindex of a closed segment: garbage", lambda p: garbage(p.beside(p.closed, ".txnindex")),
        kafka="`CorruptIndexException`: rebuilt from the segment"),
]  # fmt: skip

PARTITION_FILES = [
    Damage(
        "newest producer snapshot: garbage",
        lambda p: garbage(max(p.path.glob("*.snapshot"))),
        kafka="`WARN Failed to load producer snapshot`, the one before is taken",
    ),
    Damage(
        "newest producer snapshot: empty", lambda p: empty(max(p.path.glob("*.snapshot"))), kafka="as garbage"
    ),
    Damage(
        "all producer snapshots: missing",
        lambda p: [missing(each) for each in p.path.glob("*.snapshot")],
        kafka="rebuilt from the segments after a kill; after a clean stop producers are forgotten",
    ),
    Damage(
        "newest producer snapshot: a directory",
        lambda p: directory(max(p.path.glob("*.snapshot"))),
        kafka="the log directory goes offline",
    ),
    Damage(
        "leader-epoch-checkpoint: garbage",
        lambda p: garbage(p.path / "leader-epoch-checkpoint"),
        kafka="`Malformed line`: the log directory goes offline",
    ),
    Damage(
        "leader-epoch-checkpoint: half",
        lambda p: half(p.path / "leader-epoch-checkpoint"),
        kafka="as garbage",
    ),
    Damage(
        "leader-epoch-checkpoint: a later version",
        lambda p: version(p.path / "leader-epoch-checkpoint"),
        kafka="`Unrecognized version of the checkpoint file`: the log directory goes offline",
    ),
    Damage(
        "leader-epoch-checkpoint: missing",
        lambda p: missing(p.path / "leader-epoch-checkpoint"),
        kafka="made again, empty; after a kill filled from the segments above the recovery point",
    ),
    Damage(
        "leader-epoch-checkpoint: a directory",
        lambda p: directory(p.path / "leader-epoch-checkpoint"),
        kafka="the log directory goes offline",
    ),
    Damage(
        "partition.metadata: garbage",
        lambda p: garbage(p.path / "partition.metadata"),
        kafka="the log directory goes offline",
    ),
    Damage(
        "partition.metadata: half",
        lambda p: half(p.path / "partition.metadata"),
        kafka="the log directory goes offline",
    ),
    Damage(
        "partition.metadata: a later version",
        lambda p: version(p.path / "partition.metadata"),
        kafka="the log directory goes offline",
    ),
    Damage(
        "partition.metadata: missing",
        lambda p: missing(p.path / "partition.metadata"),
        kafka="written again by the next LeaderAndIsr",
    ),
    Damage(
        "partition.metadata: a directory",
        lambda p: directory(p.path / "partition.metadata"),
        kafka="the log directory goes offline",
    ),
    Damage(
        "partition.metadata: another topic's id",
        lambda p: overwrite(p.path / "partition.metadata", 21, b"AAAAAAAAAAAAAAAAAAAAAQ"),
        kafka="the partition answers INCONSISTENT_TOPIC_ID to its controller",
    ),
    Damage(
        "partition directory: missing", lambda p: missing(p.path), kafka="made again, empty; nothing is said"
    ),
    Damage(
        "partition directory: a file in its place",
        lambda p: (missing(p.path), p.path.write_bytes(b"x")),
        kafka="the log directory goes offline when the partition is made again",
    ),
    Damage(
        "partition directory: strange files in it",
        lambda p: (
            (p.path / "notes.txt").write_bytes(b"x"),
            (p.path / "00000000000000000015.log.bak").write_bytes(b"x"),
            (p.path / "x.log").write_bytes(b"x"),
        ),
        kafka="`x.log` ends the start (NumberFormatException)",
    ),
    Damage(
        "a compaction that did not finish (.cleaned)",
        lambda p: append(p.path / "00000000000000000015.log.cleaned", b"x" * 100),
        kafka="removed",
    ),
]

PARTITION = [*SEGMENTS, *INDEXES, *PARTITION_FILES]


# --- files of the broker: `strike` gets its folder ----------------------------------------------------------

CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def _each_checkpoint(how):
    def strike(data):
        for name in CHECKPOINTS:
            if how is not version or (data / name).stat().st_size:
                how(data / name)

    return strike


def _points(name, offset):
    """A checkpoint that says this of the partition."""
    return lambda data: (data / name).write_text(f"0\n1\nkept 0 {offset}\n")


def _says(name, field, value):
    def strike(data):
        lines = [line for line in (data / name).read_text().splitlines() if not line.startswith(field)]
        (data / name).write_text("\n".join([*lines, f"{field}={value}", ""]))

    return strike


def _file(name, how):
    return lambda data: how(data / name)


def _offsets_segment(how):
    return lambda data: how(max((data / "__consumer_offsets-0").glob("*.log")))


def _strays(data):
    shutil.copytree(data / "kept-0", data / "ghost-0")
    (data / "ghost-0" / "partition.metadata").unlink()
    shutil.copytree(data / "kept-0", data / f"kept-0.{'a' * 32}-delete")
    shutil.copytree(data / "kept-0", data / f"kept-0.{'b' * 32}-stray")
    (data / "not a partition").mkdir()
    (data / "file-0").write_bytes(b"x")


def _store(how):
    def strike(data):
        for path in data.glob(f"{STORE}*"):
            # The -shm is memory that running brokers share: one that is cut ends any process that has it
            # mapped.
            if path.is_file() and not path.name.endswith("-shm"):
                how(path)

    return strike


def _garbage_in_the_second_half(path):
    garbage(path, path.stat().st_size // 8192 * 4096)


def _session_files(data):
    folder = data / "metadata.sqlite.sessions"
    folder.mkdir(exist_ok=True)
    for name in ("7000.lock", "7000.sock", "noise"):
        (folder / name).write_bytes(b"x")
    (folder / "7001.lock").mkdir()


def _sessions_a_file(data):
    missing(data / "metadata.sqlite.sessions")
    (data / "metadata.sqlite.sessions").write_bytes(b"x")


GOES_OFFLINE = "the log directory goes offline, and with it a broker that has one"
RESETS = (
    "`WARN Error occurred while reading ... resetting`: recovery from 0, high watermarks from the log start"
)
IDENTITY = "the start ends"
OURS = "has no such file: ZooKeeper keeps it"
STORE = "metadata.sqlite"

BROKER = [
    Damage("offset checkpoints: garbage", _each_checkpoint(garbage), kafka=RESETS),
    Damage("offset checkpoints: half", _each_checkpoint(half), kafka=RESETS),
    Damage("offset checkpoints: a later version", _each_checkpoint(version), kafka=RESETS),
    Damage("offset checkpoints: missing", _each_checkpoint(missing), kafka=RESETS),
    Damage("offset checkpoints: directories", _each_checkpoint(directory), kafka=GOES_OFFLINE),
    Damage("recovery-point-offset-checkpoint: beyond the log",
        _points("recovery-point-offset-checkpoint", 900), kafka="counts as the end of the log"),
    Damage("replication-offset-checkpoint: beyond the log", _points("replication-offset-checkpoint", 900),
        kafka="counts as the end of the log"),
    Damage("log-start-offset-checkpoint: beyond the log", _points("log-start-offset-checkpoint", 900),
        kafka="`WARN Deleting all segments`"),
    Damage("meta.properties: garbage", _file("meta.properties", garbage), kafka=IDENTITY),
    Damage("meta.properties: empty", _file("meta.properties", empty), kafka=IDENTITY),
    Damage("meta.properties: a later version", _says("meta.properties", "version", 99), kafka=IDENTITY),
    Damage("meta.properties: missing", _file("meta.properties", missing), kafka="written again"),
    Damage("meta.properties: a directory", _file("meta.properties", directory), kafka=GOES_OFFLINE),
    Damage("meta.properties: another broker's id", _says("meta.properties", "broker.id", 5), kafka=IDENTITY),
    Damage("meta.properties: another cluster's id",
        _says("meta.properties", "cluster.id", "AAAAAAAAAAAAAAAAAAAAAQ"), kafka=IDENTITY),
    Damage(".kafka_cleanshutdown: garbage", _file(".kafka_cleanshutdown", garbage),
        kafka="counts: only its presence does"),
    Damage(".kafka_cleanshutdown: missing", _file(".kafka_cleanshutdown", missing),
        kafka="recovers as after a kill"),
    Damage(".kafka_cleanshutdown: a directory", _file(".kafka_cleanshutdown", directory), kafka=GOES_OFFLINE),
    Damage(".lock: missing", _file(".lock", missing), kafka="made again"),
    Damage(".lock: garbage", _file(".lock", garbage), kafka="its content does not count"),
    Damage(".lock: a directory", _file(".lock", directory), kafka=GOES_OFFLINE),
    Damage("store with its -wal: garbage", _store(garbage), kafka=OURS),
    Damage("store with its -wal: the second half garbage", _store(_garbage_in_the_second_half), kafka=OURS),
    Damage("store with its -wal: half", _store(half), kafka=OURS),
    Damage("store with its -wal: empty", _store(empty), kafka=OURS),
    Damage("store with its -wal: missing", _store(missing), kafka=OURS),
    Damage("store: a directory", _store(directory), kafka=OURS),
    Damage("session files: strange ones", _session_files, kafka=OURS),
    Damage("session files: their folder missing", _file(f"{STORE}.sessions", missing), kafka=OURS),
    Damage("session files: a file for their folder", _sessions_a_file, kafka=OURS),
    Damage("stray directories and files", _strays, kafka="`ghost-0` is loaded and kept until its topic is "
                                                         "known, `-delete` removed, `-stray` kept; `not a "
                                                         "partition` ends the start"),
    Damage("__consumer_offsets: 10 bytes cut off", _offsets_segment(lambda log: cut(log, 10)),
        kafka="as any partition; the offset in the cut batch is lost"),
    Damage("__consumer_offsets: noise inside a batch", _offsets_segment(lambda log: garbage(log, 70, 20)),
        kafka="as any partition; loading ends at the batch"),
    Damage("__consumer_offsets: missing", lambda data: missing(data / "__consumer_offsets-0"),
        kafka="made again, empty: all offsets are lost; nothing is said"),
]  # fmt: skip


# --- znodes in the embedded store: `strike` gets the folder of the broker -----------------------------------


def _znode(path, change):
    """What a znode holds becomes what `change` makes of it."""
    return lambda data: change_znode(data / STORE, path, change)


def _field(name, value):
    return lambda data: json.dumps(json.loads(data) | {name: value}).encode()


def _no_field(name):
    return lambda data: json.dumps(
        {key: each for key, each in json.loads(data).items() if key != name}
    ).encode()


OFFSETS = "/brokers/topics/__consumer_offsets"
ZNODES = [
    Damage("/cluster/id: truncated", _znode("/cluster/id", lambda data: data[:10]), kafka="the start ends"),
    Damage("/controller_epoch: no number", _znode("/controller_epoch", lambda _: b"x"),
        kafka="starts; nobody is elected, nothing is served"),
    Damage("/feature: another JSON type", _znode("/feature", lambda _: b"[1]"),
        kafka="the start ends; half of it: 700 elections a second fail, nothing is served"),
    Damage("/latest_producer_id_block: a field is missing",
        _znode("/latest_producer_id_block", lambda _: b'{"version":1}'),
        kafka="no idempotent producer gets an id"),
    Damage("/brokers/ids/0: not UTF-8", _znode("/brokers/ids/0", lambda data: b"\xff" + (data or b"")),
        kafka="written again at each start"),
    Damage("/brokers/topics/kept: truncated", _znode("/brokers/topics/kept", lambda data: data[:20]),
        kafka="starts; the topic is missing, nothing is said"),
    Damage("/brokers/topics/kept: a field is missing",
        _znode("/brokers/topics/kept", _no_field("partitions")),
        kafka="starts; the topic is missing, nothing is said"),
    Damage("/brokers/topics/__consumer_offsets: empty", _znode(OFFSETS, lambda _: b""),
        kafka="500 elections a second fail, nothing is served"),
    Damage("state of the partition: a field of another type",
        _znode("/brokers/topics/kept/partitions/0/state", _field("isr", "x")),
        kafka="300 elections a second fail, nothing is served"),
    Damage("/config/topics/kept: no JSON", _znode("/config/topics/kept", lambda _: b"retention.ms=1"),
        kafka="starts; the broker's defaults count: records may be deleted"),
    Damage("/config/topics/kept: a value of another type",
        _znode("/config/topics/kept", _field("config", {"retention.ms": 1})), kafka="the start ends"),
    Damage("/config/topics/kept: a value that cannot be",
        _znode("/config/topics/kept", _field("config", {"retention.ms": "soon"})), kafka="the start ends"),
    Damage("/config/brokers/0: a megabyte of noise", _znode("/config/brokers/0", lambda _: b"x" * MEGABYTE),
        kafka="starts without these settings"),
    Damage("/config/changes: a notice of another version",
        _znode("/config/changes/config_change_9999999999", lambda _: b'{"version":9}'),
        kafka="an error with a traceback; the others are read"),
]  # fmt: skip


# --- what is kept of users, rules, quotas and tokens: the znodes are made, damaged as they are --------------


def _made(path, data):
    return _znode(path, lambda _: data if isinstance(data, bytes) else json.dumps(data).encode())


RULES, PREFIXED = "/kafka-acl/Topic/kept", "/kafka-acl-extended/prefixed/Topic/ke"
USER, ME = "/config/users/alice", "/config/users/ANONYMOUS"
TOKEN_ID = "MkQ2vTJyQ1uYbB3nZ3aGZw"
TOKEN = f"/delegation_token/tokens/{TOKEN_ID}"
RULE = {"principal": "User:ANONYMOUS", "permissionType": "Allow", "operation": "Read", "host": "*"}
OPEN = "starts; no rule counts, nothing is said, and with `allow.everyone.if.no.acl.found` everyone may"
SECURITY = [
    Damage("a topic's rules: no JSON", _made(RULES, b"x"), kafka=OPEN),
    Damage("a topic's rules: a field of another type", _made(RULES, {"version": 1, "acls": "x"}),
        kafka="the start ends"),
    Damage("a topic's rules: an operation that nobody knows",
        _made(RULES, {"version": 1, "acls": [RULE | {"operation": "Fly"}]}),
        kafka="starts; the topic has a rule, and nobody may"),
    Damage("rules of a prefix: truncated",
        _made(PREFIXED, json.dumps({"version": 1, "acls": [RULE]}).encode()[:40]), kafka=OPEN),
    Damage("/kafka-acl-changes: a notice that is none",
        _made("/kafka-acl-changes/acl_changes_9999999999", b"x"), kafka="starts"),
    Damage("a user: no JSON", _made(USER, b"x"), kafka="starts without the user; nothing is said"),
    Damage("a user: a credential that cannot be",
        _made(USER, {"version": 1, "config": {"SCRAM-SHA-256": "salt=x"}}), kafka="the start ends"),
    Damage("a quota that cannot be", _made(ME, {"version": 1, "config": {"producer_byte_rate": "soon"}}),
        kafka="the start ends"),
    Damage("a quota of another type", _made(ME, {"version": 1, "config": {"producer_byte_rate": [1]}}),
        kafka="the start ends"),
    Damage("a token: no JSON", _made(TOKEN, b"x"), kafka="starts without it; nothing is said"),
    Damage("a token without its owner", _made(TOKEN, {"version": 1, "tokenId": TOKEN_ID}),
        kafka="starts without it; an error with a traceback"),
]  # fmt: skip


# --- the page -----------------------------------------------------------------------------------------------

EVENTS = {
    "checkpoint.unreadable": (
        "A checkpoint counts as empty: recovery begins at 0, high watermarks at the log start."
    ),
    "directory.offline": "The log directory is not served any more; a broker without another one ends.",
    "index.rebuild": "An index is missing or impossible; it is written again from its segment.",
    "leader_epochs.torn": "leader-epoch-checkpoint is removed and written again from the segments.",
    "load.batch_unreadable": "A batch of a coordinator's topic cannot be read.",
    "load.failed": "The partition is not coordinated until it gets a new leader.",
    "load.record_unreadable": "A record of a coordinator's topic cannot be read; loading goes on behind it.",
    "load.transactional_id_unreadable": "Nobody coordinates this id: its last record cannot be read.",
    "log.damaged": "A partition cannot be loaded as it is; everything in it is checked.",
    "log.emptied": "log-start-offset-checkpoint lies beyond the end of the log; the log starts there, empty.",
    "log.lost_end": "The log ends below the high watermark that was written down: so many offsets are lost.",
    "log.lost_front": (
        "The log starts before its first segment: what lies between is lost here, and stays on "
        "the other replicas."
    ),
    "log.offline": "A file of the partition failed while it was used.",
    "log.unusable": (
        "This partition is not served until its directory is mended or moved away and the broker restarted."
    ),
    "log.vanished": "A partition that had records has no directory any more; it starts empty.",
    "log.gap": "Offsets between two segments are gone; readers go on behind them.",
    "partitions.unknown": (
        "The metadata store does not have partitions that are on disk; they are kept, not served."
    ),
    "quotas.unreadable": "A quota cannot be one; who it is of has none.",
    "scram.unreadable_credential": "A credential cannot be one; the user does not get in with it.",
    "segment.corrupt": "A batch does not fit its segment; readers get CORRUPT_MESSAGE.",
    "partition.role_refused": "The partition cannot be led; the reason is in the line.",
    "partition_metadata.torn": (
        "partition.metadata is removed, and written again when the controller names the topic."
    ),
    "segment.missing": "An index has no segment any more: its records are gone.",
    "segment.truncated": (
        "A segment is cut at its first bad batch; the line has the position and the bytes lost."
    ),
    "shutdown.unclean": "Partitions are damaged, so the stop leaves no marker of a clean one.",
    "snapshot.batches_unreadable": (
        "The batches beside a producer snapshot are left out; the end of the log says of them what it can."
    ),
    "znode_unreadable": (
        "A znode does not hold what Kafka writes there: the line has its path, what is "
        "wrong, and what is done without it."
    ),
    "snapshot.unreadable": (
        "A producer snapshot is removed; the one before it is taken, and the batches since."
    ),
}
HEAD = """# Damaged files

What a broker does when files of its data directory are damaged: cut, overwritten, missing, unreadable, or
something else than they should be. `python tests/chaos/damage.py` does all of this to real brokers and writes
this page; the tests do it again and compare, so the page is what happens.

Three rules hold for every line. No acknowledged record is lost in silence. A damaged partition costs no other
partition. There is never a traceback, but one line that names the file, and at the end of a start one line
that says why there is none.

Each partition holds the numbers 0 to 59 in four segments of 15, synced but for the last. A cell has the
numbers that readers get, what stops them or writes, and the events in the broker's log, whose lines name the
partition and the file. *After a clean stop* and *after kill -9* are the next start; *while it runs* is the
broker that goes on, without one.

Who removes an open file takes its name only: the broker's appends to it still succeed, and are gone when it
ends. So a log that was appended to is looked at once a second (`barnabas.log.files.check.interval.ms`). When
its active segment or its directory is gone, or the segment was cut to nothing (`logrotate` with
`copytruncate`) or replaced by a copy, the partition takes and serves nothing more (KAFKA_STORAGE_ERROR,
`log.files_removed`), and another replica leads; the line has the offsets in doubt. One that is cut in its
middle and appended to before the look is found by readers only (a batch that is none), and its start cuts it
off there, and its followers after it. Without another replica, what was acknowledged after the files were
touched is lost: at most what came in one interval and the look itself. A closed segment is missed by its
first reader, or by retention, with the same result. *While it runs* is the moment before that look. By its
source Kafka's broker goes on acknowledging until the segment is full, however long that takes, and then its
whole log directory goes offline. Kafka's column is from the source of 3.9, that of the znodes from starts of
3.9.2.

A coordinator passes over a record of its topic that it cannot read (`load.record_unreadable`; also one of a
version that it does not know). In `__consumer_offsets` that costs what the record said: a group goes on from
the offset before, and reads some records again. In `__transaction_state` the record before must not count in
its place, or a transaction would be aborted that is committed in part, or a fenced producer be let in. Each
record says all of its id, so a later one that can be read mends it; without one the id has no coordinator
(NOT_COORDINATOR, `load.transactional_id_unreadable`), and the other ids are served. A batch of
`__transaction_state` that cannot be read may be of any id: its partition is not coordinated (`load.failed`).
What mends both is another leader for the partition, whose copy is whole or whose version knows the record.
Kafka's coordinators end the load at such a record. Of `__transaction_state` they serve what they had read
by then: the ids as they were, and no later ones. Of `__consumer_offsets` they serve nothing, and all groups
begin where `auto.offset.reset` says.

After kill -9 a log is cut at its first batch that is damaged, here as in Kafka; of one replica, all that came
after it is gone. A `__transaction_state` that was cut between the two ends of a transaction leaves an id that
is to be ended with an epoch that its partitions have left behind: they refuse the marker (`markers.given_up`
with INVALID_PRODUCER_EPOCH), and the id answers CONCURRENT_TRANSACTIONS from then on, so `init_transactions`
ends at `max.block.ms`. Readers see what they saw; a new transactional id goes on.

A resource whose access rules cannot be read is closed to all but super users; the broker here has an
authorizer that leaves resources without rules open.

An index of aborted transactions (`.txnindex`) has no checksum, and a segment without one has no aborted
transactions. An entry that cannot be has it rebuilt with the start. One that is missing, empty or cut between
two entries is believed, here as in Kafka: readers of committed data are shown what was aborted."""
COLUMNS = "| damage | after a clean stop | after kill -9 | while it runs | Kafka 3.9 |\n|---|---|---|---|---|"
SECTIONS = {
    "Segments": SEGMENTS,
    "Indexes": INDEXES,
    "Other files of a partition": PARTITION_FILES,
    "Files of the broker": BROKER,
    "Znodes": ZNODES,
    "Znodes of users, rules, quotas and tokens": SECURITY,
}
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| [^|]* \|$", re.MULTILINE)


def page(seen):
    """The page; `seen` has what was seen by state and damage."""
    parts = [HEAD]
    for title, damages in SECTIONS.items():
        rows = [
            f"| {each.what} | {' | '.join(str(seen[state][each.what]) for state in seen)} | {each.kafka} |"
            for each in damages
        ]
        parts.append("\n".join([f"## {title}", COLUMNS, *rows, ""]))
    said = [f"- `{event}`: {meaning}" for event, meaning in sorted(EVENTS.items())]
    return "\n".join([*parts, "## What the log says", *said, ""])


def expected(state):
    """What the page says, by damage."""
    place = {"clean": 1, "killed": 2, "running": 3}[state]
    return {row[0]: row[place] for row in _ROW.findall(PAGE.read_text())}


def main():
    from damage_rig import SECURED, STATES, look_at_brokers, look_at_partitions

    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        for state in STATES:
            places = [Path(folder) / kind / state for kind in ("partitions", "brokers", "secured")]
            for place in places:
                place.mkdir(parents=True)
            seen[state] = {
                **look_at_partitions(PARTITION, state, places[0]),
                **look_at_brokers([*BROKER, *ZNODES], state, places[1]),
                **look_at_brokers(SECURITY, state, places[2], more=SECURED),
            }
    PAGE.write_text(page(seen))


if __name__ == "__main__":
    main()
