"""Reads tables of Delta and Iceberg by what their formats say, with none of the libraries that wrote them.

table_judge.py FOLDER prints an object of JSON: of each table in it the rows of each key, and a checksum of
them. Of Iceberg ``catalog.db`` beside the folder says which tables there are.
"""

import json
import sqlite3
import sys
import zlib
from pathlib import Path
from urllib.parse import unquote

import fastavro
import pyarrow.parquet as pq


def delta_files(table):
    """By the log's versions, one after the other."""
    files = set()
    for version in sorted((table / "_delta_log").glob("*.json")):
        for line in version.read_text().splitlines():
            action = json.loads(line)
            if "remove" in action:
                files.discard(unquote(action["remove"]["path"]))
            if "add" in action:
                files.add(unquote(action["add"]["path"]))
    return [table / file for file in files]


def avro(address):
    with Path(address.removeprefix("file://")).open("rb") as file:
        return list(fastavro.reader(file))


def iceberg_files(metadata):
    """By the manifests of the newest snapshot."""
    said = json.loads(Path(metadata.removeprefix("file://")).read_text())
    newest = [one for one in said["snapshots"] if one["snapshot-id"] == said.get("current-snapshot-id")]
    return [
        Path(entry["data_file"]["file_path"].removeprefix("file://"))
        for snapshot in newest
        for manifest in avro(snapshot["manifest-list"])
        for entry in avro(manifest["manifest_path"])
        if entry["status"] != 2  # deleted
    ]


def tables(folder):
    """The files of each table."""
    found = {log.parent.name: delta_files(log.parent) for log in folder.glob("*/_delta_log")}
    catalog = folder.parent / "catalog.db"
    if catalog.exists():
        with sqlite3.connect(catalog) as opened:
            named = opened.execute("SELECT table_name, metadata_location FROM iceberg_tables").fetchall()
        found |= {name: iceberg_files(metadata) for name, metadata in named}
    return found


def judged(files):
    """How often each key is there, and a checksum of all rows that does not ask for their order."""
    keys, checksum = {}, 0
    for file in files:
        with pq.ParquetFile(file) as opened:
            for row in opened.read(columns=["id", "text"]).to_pylist():
                keys[row["id"]] = keys.get(row["id"], 0) + 1
                checksum += zlib.crc32(f"{row['id']} {row['text']}".encode())
    return {"keys": keys, "checksum": checksum}


if __name__ == "__main__":
    json.dump({name: judged(files) for name, files in tables(Path(sys.argv[1])).items()}, sys.stdout)
