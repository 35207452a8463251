"""Tasks that copy, replay and stream, and those that keep delegation tokens."""
