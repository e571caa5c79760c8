"""Formats by a schema of their own, decoded in the executors without jars.

`decoder` says what a format is: a `Decoder` gives the Spark type of a value, reads one value, and makes a
column of many. `avro` and `protobuf` are the two; `file.format_settings` makes one of the file's words. One
more format is a module here with a class that is a `Decoder`, and its row in ``_DECODERS`` there. `decoding`
calls it on the columns of a batch.

Which schema a value has say `schema_ids` (a list in the file) or `registry` (asked by the value's id);
`reader_schema` settles the one that a run reads by, `latest` asks for the newest. `json_schema` and
`proto_text` read what registries have of JSON and Protobuf.
"""

from typing import Final

CORRUPT: Final = "_corrupt_record"
"""The field of a value that is malformed and kept."""
