"""``barnabas features`` and `admin.features` on a running broker."""

import pytest

from barnabas.admin import Admin, FeatureUpdate
from barnabas.core.errors import ErrorCode, KafkaError

FAILED = (
    "The update failed for all features since the following feature had an error: Invalid update version "
)
CANNOT = (
    f"Could not upgrade transaction.version to 1. {FAILED}1 for feature transaction.version. Can't downgrade"
    " the version of this feature without setting the upgrade type to either safe or unsafe downgrade.\n"
)
UNSUPPORTED = f"{FAILED}1 for feature a. Local controller 0 does not support this feature."


@pytest.mark.parametrize(
    ("flags", "out", "err"),
    [
        (
            ("upgrade", "--feature", "a=1", "--feature", "b=2", "--metadata", "3.9"),
            "".join(
                f"Could not upgrade {change}. {FAILED}21 for feature metadata.version. Local controller 0"
                " does not support this feature.\n"
                for change in ("a to 1", "b to 2", "metadata.version to 21")
            ),
            "3 out of 3 operation(s) failed.\n",
        ),
        (
            ("disable", "--feature", "a", "--dry-run"),
            f"Can not disable a. {FAILED}0 for feature a. Feature a not found.\n",
            "1 out of 1 operation(s) failed.\n",
        ),
        (
            ("upgrade", "--feature", "transaction.version=1"),
            CANNOT,
            "1 out of 1 operation(s) failed.\n",
        ),
        (
            ("downgrade", "--feature", "transaction.version=1", "--dry-run"),
            "transaction.version can be downgraded to 1.\n",
            "",
        ),
        (("downgrade",), "", "You must specify at least one feature to downgrade\n"),
        (
            ("downgrade", "--feature", "a"),
            "",
            "Can't parse feature=level string a: equals sign not found.\n",
        ),
        (
            ("upgrade", "--feature", "a=32768"),
            "",
            "Can't parse feature=level string a=32768: unable to parse 32768 as a short.\n",
        ),
        (("upgrade", "--feature", "a=-32768"), "", "Cannot specify a negative version level.\n"),
        (
            ("upgrade", "--feature", "a=1", "--feature", "a=2"),
            "",
            "Feature a was specified more than once.\n",
        ),
        (("disable", "--feature", "a", "--feature", "a"), "", "Feature a was specified more than once.\n"),
        (("disable", "--feature", " "), "", "Provided feature can not be empty.\n"),
        (
            ("upgrade", "--release-version", "4.0", "--metadata", "4.0"),
            "",
            "Can not specify `release-version` with other feature flags.\n",
        ),
        (
            ("upgrade", "--release-version", "3.9", "--dry-run"),
            "".join(
                f"Can not upgrade {change}. {FAILED}1 for feature kraft.version. Local controller 0 does not"
                " support this feature.\n"
                for change in ("kraft.version to 1", "metadata.version to 21")
            ),
            "2 out of 2 operation(s) failed.\n",
        ),
    ],
)
def test_lines_and_exit_codes(barnabas, broker, flags, out, err):
    done = barnabas("features", "--bootstrap-server", broker.bootstrap, *flags)

    assert (done.stdout, done.stderr, done.exit_code) == (out, err, 1 if err else 0)


MAPPED = """metadata.version=28 (4.2-IV0)
kraft.version=1
transaction.version=2
group.version=1
eligible.leader.replicas.version=1
share.version=1
streams.version=0
"""


@pytest.mark.parametrize(
    ("words", "out", "err"),
    [
        (("version-mapping", "--release-version", "4.2-IV0"), MAPPED, ""),
        (
            ("feature-dependencies", "--feature", "group.version=0"),
            "group.version=0 has no dependencies.\n",
            "",
        ),
        (
            ("feature-dependencies", *("--feature", "eligible.leader.replicas.version=1")),
            "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n",
            "",
        ),
        (
            ("feature-dependencies", "--feature", "metadata.version=25"),
            "metadata.version=25 (4.0-IV3) has no dependencies.\n",
            "",
        ),
        (("feature-dependencies", "--feature", "metadata.version=5"), "", "Unknown metadata.version 5\n"),
        (("feature-dependencies", "--feature", "x=1"), "", "Unknown feature: x\n"),
        (
            ("feature-dependencies", "--feature", "share.version=2"),
            "",
            "No feature:share.version with feature level 2\n",
        ),
    ],
)
def test_what_releases_have(barnabas, words, out, err):
    done = barnabas("features", "--bootstrap-server", "127.0.0.1:1", *words)

    assert (done.stdout, done.stderr, done.exit_code) == (out, err, 1 if err else 0)


def test_a_release_that_is_not_known(barnabas):
    done = barnabas(
        "features", "--bootstrap-server", "127.0.0.1:1", "version-mapping", "--release-version", "9"
    )

    assert done.stderr.startswith(
        "Unknown metadata.version '9'. Supported metadata.version are: 3.3-IV3, 3.4-IV0"
    )
    assert done.stderr.endswith(" 4.3-IV0, 4.4-IV0\n")
    assert done.exit_code == 1


@pytest.mark.parametrize("version", ["2.8", "3.0", "99"])
def test_metadata_versions(barnabas, broker, version):
    done = barnabas("features", "--bootstrap-server", broker.bootstrap, "upgrade", "--metadata", version)

    assert done.exit_code == 1
    if version == "3.0":
        assert done.stdout.startswith("Could not upgrade metadata.version to 1. ")
    else:
        assert done.stderr.startswith(f"Unsupported metadata.version {version}. Supported ")
        assert done.stderr.endswith("3.8-IV0, 3.9-IV0\n")


def test_a_controller_is_not_asked(barnabas):
    done = barnabas("features", "--bootstrap-controller", "127.0.0.1:1", "describe")

    assert done.exit_code == 1
    assert "--bootstrap-server" in done.stderr


def test_a_broker_is_asked_by_its_id(barnabas, broker):
    def described(*flags):
        return barnabas("features", "--bootstrap-server", broker.bootstrap, "describe", *flags)

    with Admin(broker.bootstrap) as admin:
        (node_id,) = (one.node_id for one in admin.cluster.describe().brokers)
    assert described("--node-id", str(node_id)).stdout == described().stdout != ""
    for wanted, words in (
        (node_id + 1, f"no broker has the id {node_id + 1}: there are {node_id}\n"),
        (-1, "Invalid node id -1: must be non-negative.\n"),
    ):
        done = described("--node-id", str(wanted))
        assert (done.stdout, done.stderr, done.exit_code) == ("", words, 1)


def test_the_admin_client(broker):
    with Admin(broker.bootstrap) as admin:
        found = admin.features.describe()
        assert found.supported == {"group.version": (0, 1), "transaction.version": (0, 2)}
        assert found.finalized == {"group.version": 1, "transaction.version": 2}
        with pytest.raises(KafkaError) as refused:
            admin.features.update({"a": FeatureUpdate(1)}, validate_only=True)

    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_UPDATE_VERSION, UNSUPPORTED)
