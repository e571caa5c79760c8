"""Schemas of values: the registry that says what an id means, and the reading of values by what it says.

`registry` asks; `avro` and `protobuf` read one value into plain objects. Spark's pipelines, which make
columns of values, stand on the first two; the console and ``barnabas messages`` on all. The formats'
libraries are those of the extra `schemas`.
"""
