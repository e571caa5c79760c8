"""What is told of a pipeline: `events` and `lineage` by a run to others, `status` and `report` to people, of
what `run_history` has found, and by `schema_report` what its topics hold. Nothing here runs a pipeline.
"""
