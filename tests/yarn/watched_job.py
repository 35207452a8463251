"""What a search must know of a job on a cluster: the secrets of its tokens, and what ``spark-submit`` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.tokens.delegation_token import DelegationToken
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.submission.spark_submission import SparkSubmission
from tests.e2e.secret_search import Hit, SecretSearch, Seed


@dataclass
class WatchedJob:
    """What this process has made and read until now.

    :param tokens: each is looked for from its making on.
    :param lines: of ``spark-submit``, before anybody masks them; in client mode they are the driver's log.
    """

    search: SecretSearch
    tokens: list[DelegationToken] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def kept(self, lines: Iterable[str]) -> Iterator[str]:
        """The same lines."""
        for line in lines:
            self.lines.append(line)
            yield line

    def in_lines(self) -> list[Hit]:
        """What is in all that ``spark-submit`` said."""
        return self.search.in_bytes("log of spark-submit", "".join(self.lines).encode())


def watch_job(seeds: Iterable[Seed], monkeypatch: pytest.MonkeyPatch) -> WatchedJob:
    """Watch the next job of this process.

    :param seeds: what is looked for beside the tokens.
    """
    job = WatchedJob(SecretSearch(seeds))
    create = DelegationTokenHook.create_unchecked
    # The provider's name for the lines as they come.
    process = SparkSubmission._process_spark_submit_log  # noqa: SLF001

    def create_and_record(hook: DelegationTokenHook, *args: Any, **options: Any) -> DelegationToken:
        token = create(hook, *args, **options)
        job.search.add(Seed("hmac", token.hmac))
        job.tokens.append(token)
        return token

    def process_and_keep(submission: SparkSubmission, lines: Iterator[Any]) -> None:
        process(submission, job.kept(lines))

    monkeypatch.setattr(DelegationTokenHook, "create_unchecked", create_and_record)
    monkeypatch.setattr(SparkSubmission, "_process_spark_submit_log", process_and_keep)
    return job


def files_of(hits: list[Hit]) -> dict[str, set[str]]:
    """What was found where."""
    found: dict[str, set[str]] = {}
    for hit in hits:
        found.setdefault(hit.where, set()).add(hit.seed)
    return found
