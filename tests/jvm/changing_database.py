"""A table of PostgreSQL that pgbench changes in every way, and what its rows are in one text each.

Single rows and several in one transaction; keys that move, go and come again; transactions that are rolled
back; large values, which PostgreSQL does not send where they have not changed. `add_column` gives the table a
column more while all of that goes on.
"""

import json
import subprocess
from pathlib import Path
from typing import Final

from postgres import Postgres

from serving import die_with_parent
from waiting import until

TABLE: Final = "items"
FIRST_ROWS: Final = 2000
_DOCUMENT = "repeat(md5(random()::text), 70)"
"""So large that it is kept out of line."""
SCHEMA: Final = (
    "id INT, name STRING, price DECIMAL(12,2), stock BIGINT, active BOOLEAN, made DATE, at TIMESTAMP, "
    "doc STRING, data BINARY"
)
"""As the pipelines have it."""
ADDED: Final = ", note STRING"
# Of each column the text in PostgreSQL, and in DuckDB where that is another one.
_TEXTS = {
    "id": ("id::text", "id::varchar"),
    "name": ("name", "name"),
    "price": ("price::text", "price::varchar"),
    "stock": ("stock::text", "stock::varchar"),
    "active": ("active::int::text", "active::int::varchar"),
    "made": ("(made - DATE '1970-01-01')::text", "date_diff('day', DATE '1970-01-01', made)::varchar"),
    "at": ('((extract(epoch FROM "at") * 1000000)::bigint)::text', 'epoch_us("at")::varchar'),
    "doc": ("doc", "doc"),
    "data": ("encode(data, 'hex')", "lower(hex(data))"),
    "note": ("note", "note"),
}


def _digest(dialect: int) -> str:
    """An expression that has the same value for the same row in PostgreSQL (0) and in DuckDB (1)."""
    texts = (f"coalesce({each[dialect]}, chr(1))" for each in _TEXTS.values())
    return f"md5(concat_ws('|', {', '.join(texts)}))"


IN_DUCKDB: Final = _digest(1)
_CREATE = f"""
CREATE SEQUENCE ids START 100001;
CREATE TABLE {TABLE} (id INT PRIMARY KEY, name TEXT, price NUMERIC(12,2), stock BIGINT, active BOOLEAN,
                      made DATE, at TIMESTAMP, doc TEXT, data BYTEA);
ALTER TABLE {TABLE} ALTER doc SET STORAGE EXTERNAL;
INSERT INTO {TABLE}
SELECT n, 'name ' || n, n * -1.01, n, n % 2 = 0, DATE '1969-12-01' + n, clock_timestamp(), {_DOCUMENT},
       decode(md5(n::text), 'hex')
FROM generate_series(1, {FIRST_ROWS}) n;
"""
_KEY = f"\\set id random(1, {FIRST_ROWS * 3 // 2})\n"
_ROW = f"'ü ' || :id, :id * 0.07, NULL, true, NULL, clock_timestamp(), {_DOCUMENT}, ''"
_COLUMNS = "(id, name, price, stock, active, made, at, doc, data)"
# What one transaction does, by pgbench's weight of it.
_SCRIPTS: Final = {
    "update": (8, f"UPDATE {TABLE} SET price = price + 1.01, at = clock_timestamp() WHERE id = :id;"),
    "document": (1, f"UPDATE {TABLE} SET doc = {_DOCUMENT} WHERE id = :id;"),
    "insert": (2, f"INSERT INTO {TABLE} {_COLUMNS} SELECT nextval('ids'), {_ROW};"),
    "upsert": (
        2,
        f"""INSERT INTO {TABLE} {_COLUMNS} VALUES (:id, {_ROW})
            ON CONFLICT (id) DO UPDATE SET name = excluded.name, stock = NULL;""",
    ),
    "delete": (2, f"DELETE FROM {TABLE} WHERE id = :id;"),
    # Of a row whose key changes Debezium has no earlier values.
    "move": (1, f"UPDATE {TABLE} SET id = nextval('ids'), doc = {_DOCUMENT} WHERE id = :id;"),
    "several": (
        1,
        f"""BEGIN;
            UPDATE {TABLE} SET stock = stock + 1 WHERE id BETWEEN :id AND :id + 3;
            DELETE FROM {TABLE} WHERE id = :id;
            INSERT INTO {TABLE} {_COLUMNS} VALUES (:id, {_ROW}) ON CONFLICT DO NOTHING;
            UPDATE {TABLE} SET active = NOT active WHERE id = :id;
            END;""",
    ),
    "nothing": (1, f"BEGIN; UPDATE {TABLE} SET name = 'never' WHERE id = :id; ROLLBACK;"),
}
_WITH_NOTE: Final = {"note": (4, f"UPDATE {TABLE} SET note = 'note ' || clock_timestamp() WHERE id = :id;")}


class ChangingDatabase:
    """The database, and the load on it."""

    def __init__(self, database: Postgres, folder: Path, rate: int) -> None:
        """`rate` is in transactions a second."""
        self.database = database
        self._folder, self._rate = folder, rate
        self._scripts, self._load = dict(_SCRIPTS), None

    def make(self) -> None:
        self.database.sql(_CREATE)

    def look(self) -> None:
        """Begins the load, again where the server has crashed under it."""
        if self._load is not None and self._load.poll() is None:
            return
        given = []
        for name, (weight, text) in self._scripts.items():
            file = self._folder / f"{name}.sql"
            file.write_text(f"{_KEY}{text}\n")
            given += ["-f", f"{file}@{weight}"]
        shape = ["-n", "-c", "3", "-j", "1", "-R", str(self._rate), "-T", "86400"]
        with (self._folder / "pgbench.log").open("ab") as log:
            self._load = subprocess.Popen(
                [*self.database.client("pgbench"), *shape, *given, "postgres"],
                stdout=log, stderr=log, preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread runs while servers are started
            )  # fmt: skip

    def rest(self) -> None:
        """Ends the load; nothing changes any more when this returns."""
        self.kill()
        left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'"
        until(lambda: self.database.sql(left) == "0", "the last transactions end")

    def kill(self) -> None:
        if self._load is not None:
            self._load.kill()
            self._load.wait()
            self._load = None

    def crash(self) -> None:
        """An immediate stop, and a start."""
        self.database.crash()
        self.database.start()

    def add_column(self) -> None:
        self.database.sql(f"ALTER TABLE {TABLE} ADD COLUMN note TEXT")
        self._scripts |= _WITH_NOTE
        self.rest()
        self.look()

    def rows(self) -> dict[str, str]:
        """The digest of each row by its key; the added column must be there."""
        return json.loads(
            self.database.sql(f"SELECT coalesce(json_object_agg(id, {_digest(0)}), '{{}}') FROM {TABLE}")
        )
