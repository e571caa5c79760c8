"""GSSAPI: log-ins with Kerberos. Needs the extra ``gssapi``."""
