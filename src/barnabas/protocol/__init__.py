"""Kafka's wire protocol: one class a message for all its versions, codecs compiled from it, framing.

Theory of operation
-------------------
`schema` turns a class into a schema: its fields know from which version to which they exist. `layout` asks
which of them one version has, in wire order. `decoder` and `encoder` write that layout down as straight-line
Python, `source` compiles it and remembers which line belongs to which field, so that the hot path carries no
bookkeeping and an error still names message, version, field and offset. `messages` holds one module an API;
`registry` loads them by key when they are first asked for. `framing` adds headers and the length.
"""
