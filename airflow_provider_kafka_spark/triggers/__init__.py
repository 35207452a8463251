"""Triggers, which wait in the triggerer."""
