"""OAUTHBEARER (RFC 7628, KIP-255, KIP-768): who shows a valid token is let in."""
