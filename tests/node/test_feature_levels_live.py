"""Levels of features on the embedded store: kept over restarts, and lowered while transactions are open."""

import pytest

from barnabas.admin import Admin
from barnabas.admin.features import FeatureUpdate
from barnabas.admin.types import NewTopic
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.protocol.upgrade_type import UpgradeType
from waiting import until

VERSION = "transaction.version"
PLACE = TopicPartition("t", 0)
HIGHEST = {"group.version": 1, VERSION: 2}


def levels(bootstrap):
    with Admin(bootstrap) as admin:
        return dict(admin.features.describe().finalized)


def change(bootstrap, level, name=VERSION):
    kind = UpgradeType.UPGRADE if level == HIGHEST[name] else UpgradeType.SAFE_DOWNGRADE
    with Admin(bootstrap) as admin:
        admin.features.update({name: FeatureUpdate(level, kind)})
    until(lambda: levels(bootstrap).get(name, 0) == level, lambda: f"{name} is {level}")


@pytest.mark.parametrize("killed", [False, True])
def test_levels_are_kept_over_a_restart(serve, tmp_path, killed):
    first = serve(tmp_path / "data")
    bootstrap = first.wait_until_ready().bootstrap
    assert levels(bootstrap) == HIGHEST
    change(bootstrap, 1)
    change(bootstrap, 0, "group.version")
    told = levels(bootstrap)
    with Admin(bootstrap) as admin:
        epoch = admin.features.describe().finalized_epoch
    if killed:
        first.kill()
    else:
        assert first.stop() == 0

    second = serve(tmp_path / "data")
    bootstrap = second.wait_until_ready().bootstrap
    assert levels(bootstrap) == told == {VERSION: 1}  # 0 is not told
    with Admin(bootstrap) as admin:
        assert admin.features.describe().finalized_epoch == epoch
    change(bootstrap, 2)
    assert second.stop() == 0


@pytest.mark.parametrize("commit", [True, False])
def test_a_level_that_is_lowered_under_an_open_transaction_loses_none(serve, tmp_path, commit):
    server = serve(tmp_path / "data", "--set", "transaction.state.log.num.partitions=1")
    bootstrap = server.wait_until_ready().bootstrap
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic("t", partitions=1))
    wanted = []
    # A producer asks for the levels again where it connects anew; the open transaction stays what it is.
    with Producer(bootstrap, transactional_id="clerk", metadata_max_age_ms=200) as producer:
        producer.init_transactions()
        for number, level in enumerate((0, 2, 1, 2)):
            producer.begin_transaction()
            producer.send("t", f"{number}-open".encode()).result(20)
            change(bootstrap, level)
            producer.send("t", f"{number}-lowered".encode()).result(20)
            if commit:
                producer.commit_transaction()
                wanted += [f"{number}-open".encode(), f"{number}-lowered".encode()]
            else:
                producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"last")
        producer.commit_transaction()
    wanted.append(b"last")
    # A client that comes now finds a transactional id that can be used, whatever its version.
    with Producer(bootstrap, transactional_id="clerk") as producer:
        producer.init_transactions()
    assert committed(bootstrap) == wanted
    assert server.stop() == 0


def committed(bootstrap):
    """The committed records, up to the end of what is stable."""
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([PLACE])
        end = consumer.end_offsets([PLACE])[PLACE]
        found = []
        while consumer.position(PLACE) < end:
            found += [record.value for record in consumer.poll(100)]
    return found
