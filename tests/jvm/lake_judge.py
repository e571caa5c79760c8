"""Reads tables of Delta and Iceberg with none of the libraries that wrote them: the logs by what their
formats say (`table_judge`), the files with DuckDB.

    lake_judge.py FOLDER

prints an object of JSON: of each table in the folder how many rows it has, and the digest of each row by its
key, as `changing_database` has it.
"""

import json
import sys
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))

from changing_database import IN_DUCKDB
from table_judge import tables


def judged(files):
    """Files that are older than a column have null in it."""
    if not files:
        return {"rows": 0, "digests": {}}
    with duckdb.connect() as engine:
        query = f"SELECT id::varchar, {IN_DUCKDB} FROM read_parquet(?, union_by_name = true)"
        rows = engine.execute(query, [[str(file) for file in files]]).fetchall()
    return {"rows": len(rows), "digests": dict(rows)}


if __name__ == "__main__":
    json.dump({name: judged(files) for name, files in tables(Path(sys.argv[1])).items()}, sys.stdout)
