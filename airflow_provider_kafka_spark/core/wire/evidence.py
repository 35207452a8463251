"""What the result of a copy has for its audit: how records were changed, and where the target began. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.wire.codec import decode, encode
from airflow_provider_kafka_spark.core.wire.protocol import Transform

_VERSION = 2


@dataclass(frozen=True, slots=True)
class CopyEvidence:
    """:param transform: how each record was changed.
    :param read_committed: aborted records of the source were left out.
    :param source_cluster_id: empty if unknown, as the next one.
    :param target_ids: id of each target topic, as far as it is known.
    :param target_ends: end of each target partition before the run, as far as it is known.
    :param also_run_ids: further ids in the provenance headers of its records: of a batch that an earlier generation of
        a stream had begun.
    :param may_have_duplicates: records may be in the target more than once, and no header tells which.
    """

    transform: Transform
    read_committed: bool = True
    source_cluster_id: str = ""
    target_cluster_id: str = ""
    target_ids: Mapping[str, str] = field(default_factory=dict)
    target_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    also_run_ids: tuple[str, ...] = ()
    may_have_duplicates: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_dict` reads it back."""
        return encode(self, _VERSION)

    @classmethod
    def from_dict(cls, value: object) -> CopyEvidence:
        """:raises ProtocolError: if it is not of this version."""
        remedy = "Audit the result of a copy as it was returned."
        return decode(cls, value, version=_VERSION, name="The key 'evidence' of a result", remedy=remedy)
