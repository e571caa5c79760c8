"""Who may do what, and how much of it: access rules (``kafka.security``), quotas (``kafka.server``)."""
