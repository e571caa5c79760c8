"""An asset for Dagster: the table, each time that a run of the pipeline has brought it up to its topic."""

import json
import os
import subprocess

from dagster import Definitions, MaterializeResult, ScheduleDefinition, asset, define_asset_job

FILE = os.environ.get("FLIGHTS_PIPELINE", "/pipelines/flights.toml")


@asset
def flights() -> MaterializeResult:
    """Rows of the topic; the metadata are those of `barnabas pipeline status`."""
    subprocess.run(["barnabas", "pipeline", "run", FILE, "--once"], check=True)
    told = subprocess.run(
        ["barnabas", "pipeline", "status", FILE, "--json"], check=True, capture_output=True, text=True
    )
    (found,) = json.loads(told.stdout)["pipelines"]
    names = ("rows_written", "letters", "rows_dropped", "restarts", "lag_records", "files", "small_files")
    return MaterializeResult(metadata={name: found[name] for name in names if found[name] is not None})


definitions = Definitions(
    assets=[flights],
    schedules=[
        ScheduleDefinition(job=define_asset_job("flights_job", [flights]), cron_schedule="*/10 * * * *")
    ],
)
