"""The vocabulary that every other folder speaks: ids, errors, ports, the config table, the event log."""
