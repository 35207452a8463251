"""The parameters ``token_owner`` and ``token_ids`` under names that Airflow shows among rendered fields. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Airflow masks every field whose name has the word "token", and neither an id nor an owner is a secret.
_SHOWN_AS = {"token_owner": "selected_owner", "token_ids": "selected_ids"}


class TokenFields:
    """A mix-in for operators and sensors with these two parameters, each under two names.

    ``template_fields`` of the class have the parameters, which Airflow uses to find the dependencies of a mapped task;
    those of a task have the displayed names.
    """

    template_fields: Sequence[str]
    selected_owner: Any

    def show_token_fields(self) -> None:
        """Call this in ``__init__`` before the parameters are set."""
        self.template_fields = tuple(_SHOWN_AS.get(name, name) for name in self.template_fields)

    @property
    def selected_ids(self) -> Any:
        return self._selected_ids

    @selected_ids.setter
    def selected_ids(self, ids: Any) -> None:
        tokens = ids.get("tokens") if isinstance(ids, Mapping) else None
        # The keys of a sensor's result contain the word too.
        whole = isinstance(tokens, list) and all(isinstance(token, Mapping) for token in tokens)
        self._selected_ids = [token.get("token_id") for token in tokens or ()] if whole else ids

    @property
    def token_owner(self) -> Any:
        return self.selected_owner

    @token_owner.setter
    def token_owner(self, owner: Any) -> None:
        self.selected_owner = owner

    @property
    def token_ids(self) -> Any:
        return self.selected_ids

    @token_ids.setter
    def token_ids(self, ids: Any) -> None:
        self.selected_ids = ids
