"""Changes of clusters: a preview that is what gets executed, once, after a confirmation, with a line in the
audit log.

- `kinds.KINDS` is the table: what can be done, with which parameters, and who plans it.
- `topics`, `partitions`, `groups` plan; a plan has the effects, before and after, and what is to be called.
- `plans.Plans` keeps previews for a while, each for the one who made it.
- `audit.AuditLog` writes who did what: before it is done, and what became of it.
"""
