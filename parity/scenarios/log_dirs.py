"""What the log directories hold, and moves between them, as far as brokers with one directory can."""

from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from parity.scenarios.batches import batch
from parity.world import World


def describe_log_dirs(world: World) -> None:
    """Partitions that are there and that are not."""
    world.create("in-a-directory", 2)
    world.append("in-a-directory", batch(b"one", b"two"))
    for version in range(5):
        world.ask("two partitions", named("in-a-directory", 0, 1), version)
    world.ask("one twice", named("in-a-directory", 1, 1))
    world.ask("one that is not there", named("in-a-directory", 9))
    world.ask("a topic that is not there", named("no-directory", 0))
    world.ask("no partitions", named("in-a-directory"))
    world.ask("nothing", DescribeLogDirsRequest(topics=[]))


def alter_replica_log_dirs(world: World) -> None:
    """To the directory where a partition is, to one that there is not, of partitions that are there and that
    are not.
    """
    world.create("stays", 2)
    described = world.prepare(named("stays", 0), 4)
    here = described.results[0].log_dir
    for version in range(3):
        world.ask("where it is", _to(here, "stays", 0), version)
        world.ask("no such directory", _to("/not/there", "stays", 0), version)
    world.ask("two partitions", _to(here, "stays", 0, 1))
    world.ask("one twice", _to(here, "stays", 1, 1))
    world.ask("a relative path", _to("not/there", "stays", 0))
    world.ask("no path", _to("", "stays", 0))
    world.ask("one that is not there", _to(here, "stays", 9))
    world.ask("one that is not there, nowhere", _to("/not/there", "stays", 9))
    world.ask("a topic that is not there", _to(here, "comes-later", 0))
    world.ask("a negative partition", _to(here, "stays", -1))
    for length in (207, 208, 249):
        world.ask(f"a name of {length}", _to(here, "n" * length, 0))
    both = AlterReplicaLogDirsRequest(dirs=[*_to("/not/there", "stays", 0).dirs, *_to(here, "stays", 0).dirs])
    world.ask("to two directories", both)
    world.ask("no partitions", _to(here, "stays"))
    world.ask("nothing", AlterReplicaLogDirsRequest(dirs=[]))


def _to(path: str, topic: str, *partitions: int) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[*partitions])]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])


def named(topic: str, *partitions: int) -> DescribeLogDirsRequest:
    """Asks in which directory partitions are."""
    return DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[*partitions])])
