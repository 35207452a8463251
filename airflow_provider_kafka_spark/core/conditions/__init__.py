"""The conditions that sensors and triggers wait for."""
