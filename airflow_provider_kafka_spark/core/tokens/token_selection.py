"""Which delegation tokens a task means. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from airflow_provider_kafka_spark.core.errors import DelegationTokenError, InvalidInputError
from airflow_provider_kafka_spark.core.tokens.delegation_token import TokenInfo


@dataclass(frozen=True, slots=True)
class TokenSelection:
    """A selection of tokens: those with these ids, or those of an owner, or all that the login may see.

    :param owner: principal with its type, such as ``"User:alice"``, or None.
    :param token_ids: or None.
    """

    owner: str | None = None
    token_ids: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, owner: object = None, token_ids: object = None) -> TokenSelection:
        """:raises InvalidInputError: if the owner or the ids are invalid."""
        if owner is not None and (not isinstance(owner, str) or not owner.strip()):
            raise InvalidInputError(
                f"token_owner must be a Kafka principal such as 'User:alice' or 'alice'; got {owner!r}."
            )
        ids: tuple[str, ...] | None = None
        if token_ids is not None:
            texts = [token_ids] if isinstance(token_ids, str) else token_ids
            if not isinstance(texts, (list, tuple)) or not texts or not all(isinstance(i, str) and i for i in texts):
                raise InvalidInputError(
                    "token_ids must be a list of one or more ids of tokens, such as ['Fnb0YrRxQ8C0YjWbl0aMsA']; got "
                    f"{token_ids!r}. If it is a template, check what it rendered to."
                )
            ids = tuple(dict.fromkeys(texts))
        return cls(principal(owner) if owner is not None else None, ids)

    def pick(self, tokens: Iterable[TokenInfo]) -> list[TokenInfo]:
        """The selected tokens, sorted by expiry.

        :raises DelegationTokenError: if a selected id does not exist.
        """
        seen = [t for t in tokens if self.owner is None or t.owner == self.owner]
        if self.token_ids is not None:
            missing = sorted(set(self.token_ids) - {t.token_id for t in seen})
            if missing:
                raise DelegationTokenError(
                    f"The delegation tokens {missing} must "
                    f"exist{f' and belong to {self.owner}' if self.owner else ''}, and be visible to the login (its "
                    "owner, a renewer, or one with DESCRIBE on the token); the broker returned none. They may have "
                    "ended and been removed, or been expired."
                )
            seen = [t for t in seen if t.token_id in self.token_ids]
        return sorted(seen, key=lambda t: (t.expiry_ms, t.token_id))

    def among(self, token_ids: Collection[str]) -> TokenSelection:
        """The selection without other ids than these."""
        if self.token_ids is None:
            return self
        return replace(self, token_ids=tuple(name for name in self.token_ids if name in token_ids))

    def __str__(self) -> str:
        by_owner = f"of {self.owner}" if self.owner else "that the login may see"
        return f"tokens {', '.join(self.token_ids)}" if self.token_ids is not None else f"tokens {by_owner}"


def principal(name: str) -> str:
    """``"alice"`` -> ``"User:alice"``, as Kafka writes principals.

    :raises InvalidInputError: for a type other than User, which Kafka's tokens do not have.
    """
    kind, colon, user = name.strip().partition(":")
    if colon and (kind != "User" or not user):
        raise InvalidInputError(
            f"Owners and renewers of delegation tokens are of the type User, such as 'User:alice'; got {name!r}."
        )
    return name.strip() if colon else f"User:{kind}"


def selected_owner_of(token_owner: str | None, airflow_owner: str) -> str | None:
    """The owner of the tokens that a task selects. ``owner`` is Airflow's own parameter, often a team in
    ``default_args``; it counts if it is written as a principal.

    >>> selected_owner_of(None, "User:alice"), selected_owner_of("bob", "data-team")
    ('User:alice', 'bob')
    >>> selected_owner_of(None, "data-team")
    """
    is_principal = isinstance(airflow_owner, str) and airflow_owner.startswith("User:")
    return airflow_owner if token_owner is None and is_principal else token_owner
