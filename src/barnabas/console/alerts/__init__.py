"""Alerts: rules over what is remembered, incidents, and notices of them."""
