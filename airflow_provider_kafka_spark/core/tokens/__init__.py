"""Delegation tokens: selection, expiry, and the settings by which Spark obtains them."""
