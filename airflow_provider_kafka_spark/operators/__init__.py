"""Operators that copy, replay and stream, and those that renew and expire delegation tokens."""
