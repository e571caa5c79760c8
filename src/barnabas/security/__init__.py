"""Who may do what: access rules (``kafka.security``)."""
