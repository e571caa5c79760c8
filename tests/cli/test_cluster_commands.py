"""``barnabas cluster`` and ``barnabas broker-api-versions`` on a running broker."""

from barnabas.admin import Admin


def test_the_id_of_the_cluster(broker, barnabas):
    with Admin(broker.bootstrap) as admin:
        cluster_id = admin.cluster.describe().cluster_id
    done = barnabas("cluster", "cluster-id", "--bootstrap-server", broker.bootstrap)

    assert (done.exit_code, done.stdout.strip()) == (0, f"Cluster ID: {cluster_id}")


def test_a_cluster_with_zookeeper_unregisters_no_broker(broker, barnabas):
    done = barnabas("cluster", "unregister", "--id", "7", "--bootstrap-server", broker.bootstrap)

    assert (done.exit_code, done.stdout.strip()) == (
        0,
        "The target cluster does not support the broker unregistration API.",
    )


def test_the_versions_of_each_api(broker, barnabas):
    done = barnabas("broker-api-versions", "--bootstrap-server", broker.bootstrap)
    lines = done.stdout.splitlines()

    assert done.exit_code == 0, done.stderr
    assert lines[0].endswith("-> (")
    assert lines[1] == "\tProduce(0): 0 to 13 [usable: 13],"
    assert "\tDeleteRecords(21): 0 to 2 [usable: 2]," in lines
    assert "\tListClientMetricsResources(74): 0 to 1 [usable: 1]," in lines
    assert "\tLeaderAndIsr(4): UNSUPPORTED," in lines, "not for clients, in the profile 4.4"
    assert lines[-1] == ")"


def test_a_broker_that_does_not_answer_has_an_error(broker):
    with Admin(broker.bootstrap) as admin:
        [(node, versions)] = admin.cluster.try_api_versions([99]).items()

    assert node == 99
    assert "99" in str(versions)
