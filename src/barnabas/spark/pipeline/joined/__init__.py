"""Records are joined with tables: `joined_tables` says when a table is read and what a batch sees of it,
`joins` makes the DataFrames.
"""
