"""What decides behind the command line and the console: plans, previews, explanations, the lag of groups.

Nothing here prints, reads a command line or needs Spark: a function takes an admin client and values, and
gives values back. What an operator can mend is an `OperationError`, one line that says what to do.
"""
