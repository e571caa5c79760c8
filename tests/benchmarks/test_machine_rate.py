"""What `bench.machine_rate` makes of its rounds."""

from bench.machine_rate import Turn, table

from barnabas.core.processors import cores


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_ratio_is_taken_within_each_round_and_a_broker_has_one_core_at_most():
    rounds = [
        {"1 of ours": Turn(100.0, 5.0, 1.0), "2 of ours": Turn(150.0, 5.0, 1.0)},
        {"1 of ours": Turn(400.0, 5.0, 1.0), "2 of ours": Turn(720.0, 5.0, 1.0)},
        {"1 of ours": Turn(200.0, 5.0, 1.0), "2 of ours": Turn(400.0, 5.0, 1.0)},
    ]

    one, two = map(cells, table(rounds)[2:])

    # 400 to 200, the medians of the rates, would be 2.00x.
    assert two[:3] == ["2 of ours", "400", "1.80x"]
    assert one[6] == f"{min(cores() / 6, 1 / 5) * 1e6:,.0f}"
    assert two[6] == f"{min(cores() / 6, 2 / 5) * 1e6:,.0f}"


def test_the_cores_that_were_got_are_those_of_brokers_and_client():
    rounds = [{"1 of ours": Turn(40_000.0, 10.0, 2.5), "2 of ours": Turn(100_000.0, 10.0, 5.0)}]

    assert [cells(line)[5] for line in table(rounds)[2:]] == ["0.50", "1.50"]
