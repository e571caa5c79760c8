"""Records of a topic as they may be seen: read in bounds, decoded, masked, filtered.

- `browse` reads: from where, up to where, and what is left.
- `reading` makes of a record what may be seen of it: `decoding` its parts, `masks` what nobody sees.
- `filters` looks at that, and at nothing else: a search finds no value that is hidden.
- `internal_records` are those of ``__consumer_offsets`` and ``__transaction_state``.
"""
