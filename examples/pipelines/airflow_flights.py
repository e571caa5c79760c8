"""A DAG for Airflow 3: every ten minutes what the topic has, then whether the table is near enough to it."""

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

FILE = os.environ.get("FLIGHTS_PIPELINE", "/pipelines/flights.toml")

with DAG(
    "flights",
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # a second run of the file would be refused
) as dag:
    load = BashOperator(
        task_id="load",
        bash_command=f"barnabas pipeline run {FILE} --once --report {FILE}.html",
        append_env=True,
        retries=2,
    )
    near = BashOperator(
        task_id="near",
        bash_command=f"barnabas pipeline status {FILE} --max-lag 100000",
        append_env=True,
    )
    load >> near
