from __future__ import annotations

import pytest

from tests.required_tools import needs


@pytest.mark.parametrize(
    ("variable", "is_there", "is_left_out"),
    [
        pytest.param(None, False, True, id="missing"),
        pytest.param(None, True, False, id="installed"),
        pytest.param("true", False, False, id="missing-in-ci"),
    ],
)
def test_a_missing_tool_is_seen_in_ci(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, is_there: bool, is_left_out: bool
) -> None:
    """A developer's machine may do without it; CI may not, or nobody would see that its evidence is gone."""
    monkeypatch.delenv("CI", raising=False)
    if variable is not None:
        monkeypatch.setenv("CI", variable)

    mark = needs("a tool", is_there=is_there, install="apt-get install it").mark

    assert (mark.name, mark.args) == ("skipif", (is_left_out,))
    assert mark.kwargs["reason"] == "needs a tool: apt-get install it"
