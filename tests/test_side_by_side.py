"""Processes side by side: each test runs where the others are that share its service."""

from __future__ import annotations

import os

import pytest


def test_pytest_xdist_knows_the_group_of_a_test(request: pytest.FixtureRequest) -> None:
    """It reads the group from the id, and without one gives each test to any process, which all start every service."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@tests/test_side_by_side.py")
