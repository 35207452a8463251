"""Clients of the brokers, and what they are asked for: offsets, groups, permissions, transactions."""
