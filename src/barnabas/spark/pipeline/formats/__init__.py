"""Formats by a schema of their own, decoded in the executors without jars.

`decoder` says what a format is: a `Decoder` gives the Spark type of a value, reads one value, and makes a
column of many. `avro` and `protobuf` are the two; `file.format_settings` makes one of the file's words. One
more format is a module here with a class that is a `Decoder`, and its row in ``_DECODERS`` there.
"""

from typing import Final

CORRUPT: Final = "_corrupt_record"
"""The field of a value that is malformed and kept."""
