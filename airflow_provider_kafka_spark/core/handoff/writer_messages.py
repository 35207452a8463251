"""What the driver tells the writer. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Owner:
    group: str
    number: int
    token: str


@dataclass(frozen=True, slots=True)
class Slot:
    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class WriterSettings:
    run_id: str
    provenance_header: str | None
    target_topic: str | None
    target_ids: Mapping[str, str]
    columns: tuple[str, ...] | None
    include_headers: bool
    preserve_partition: bool
    preserve_timestamps: bool
    window_start_ms: int | None
    window_end_ms: int | None
    delivery_timeout_ms: int
    stall_timeout_ms: int
    commit_records: int
    commit_ms: int
    owner: Owner | None
    id_prefix: str | None
    delivered: bool
    producer: Mapping[str, str] = field(repr=False)
