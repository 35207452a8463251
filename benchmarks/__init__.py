"""Measurements against the peers, side by side: see README.md. Run by ``make bench``, never by the tests."""
