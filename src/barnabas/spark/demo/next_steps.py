"""What to do with what the demo leaves: commands that work as they stand."""

import shlex
from pathlib import Path
from typing import NamedTuple

from barnabas.spark.demo.jobs import ALERTS, FLIGHTS


class Run(NamedTuple):
    """What a run leaves behind."""

    address: str | None
    """Of the brokers, where they stay and keep the topics."""
    out: Path
    """The folder of the report, absolute."""
    broker: bool
    """Whether the broker was the demo's own, with its data in `out`."""


def next_steps(run: Run) -> list[tuple[str, str]]:
    """(What for, command) of each step."""
    table = run.out / "delays.parquet"
    look = f"import pandas as pd; print(pd.read_parquet({str(table)!r}).nlargest(5, 'delay_minutes'))"
    steps = [("The worst hours, from the Parquet table", f"python -c {shlex.quote(look)}")]
    if run.address is None:
        again = f"barnabas demo --keep --out {shlex.quote(str(run.out))}"
        return [*steps, ("The same again, with a broker that stays", again)]
    at = f"--bootstrap-server {run.address}"
    steps += [
        ("The topics and their partitions", f"barnabas topics {at} --describe --topic '{FLIGHTS}|{ALERTS}'"),
        ("Three alerts", (f"barnabas consume {at} --topic {ALERTS} --partition 0 --from-beginning "
                         "--max-messages 3")),
    ]  # fmt: skip
    store = f" --store {shlex.quote(str(run.out / 'broker'))}" if run.broker else ""
    steps.append(('All of it in a browser (the extra "console")', f"barnabas console {at}{store}"))
    if run.broker:
        disk = (
            f"barnabas analyze disk {shlex.quote(str(run.out / 'broker'))} {at} --out "
            f"{shlex.quote(str(run.out / 'disk'))}"
        )
        steps.append(("What the topics take on the disk, with a page of its own", disk))
    return steps
