"""What a task keeps between its tries, in Airflow's task state store, and Airflow's counters of its tries.

Who may trigger a DAG may also write to that store, by Airflow's API (``PUT .../state-store/...``), and who may see the
DAG reads it. So what a task takes for its own memory has a MAC, by a key that the API does not give away. What has
none, or that of another task instance, counts as lost: the run then goes on from what the target's brokers know.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import zlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_provider_kafka_spark.core.errors import ProtocolError
from airflow_provider_kafka_spark.core.wire.codec import FROM_MINUS_ONE, decode, encode
from airflow_provider_kafka_spark.state.deployment import state_key
from airflow_provider_kafka_spark.state.seal import is_sealed, seal
from airflow_provider_kafka_spark.toolchain.settings import STATE_KEY

if TYPE_CHECKING:
    from airflow.sdk import Context

STATE_VERSION = 8
#: Under which a task keeps its run, or where it began in a stream, with the result when it has delivered.
RUN_KEY, STREAM_KEY = "kafka_spark_run", "kafka_spark_stream"
#: Characters of JSON from which on a value is stored packed: Airflow warns of more than 64 KiB.
_LARGE = 16_384
_PACKED, _XZ = "packed", b"\xfd7zXZ"
#: Characters of what is packed from which on it is stored in parts, each under a key of its own.
_PART, _PARTS = 60_000, "parts"
#: Bytes of what is unpacked.
_MOST = 256 * 1024 * 1024

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TryNumbers:
    """Airflow's counters of one try of a task instance; None if one is unknown."""

    clear_number: int | None = None
    # Airflow's database has -1 where it is not set.
    max_tries: int | None = field(default=None, metadata=FROM_MINUS_ONE)
    try_number: int | None = None

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> TryNumbers:
        ti = context["ti"]
        return cls(
            getattr(context.get("dag_run"), "clear_number", None),
            getattr(ti, "max_tries", None),
            getattr(ti, "try_number", None),
        )

    def is_cleared_since(self, earlier: TryNumbers) -> bool:
        # A clear through the API with reset_dag_runs=false leaves clear_number as it is; every clear raises max_tries.
        tries = {earlier.max_tries, self.max_tries} - {None}
        return (earlier.clear_number or 0) != (self.clear_number or 0) or len(tries) > 1

    @property
    def is_first(self) -> bool:
        """Whether no try can have been before this one."""
        return (self.try_number or 1) <= 1

    def is_retry_of(self, earlier: TryNumbers) -> bool:
        """Whether this is an automatic retry. If that is uncertain, the run counts as requested by a user."""
        known = None not in (*astuple(earlier), *astuple(self))
        return known and not self.is_cleared_since(earlier) and (earlier.try_number or 0) < (self.try_number or 0)


class TaskState:
    """The task state store, as one operator uses it.

    A task may call several operators, as in a function with ``@task``; each has its own keys.

    :param task_id: of the operator.
    """

    def __init__(self, context: Mapping[str, Any], task_id: str) -> None:
        ti = context["ti"]
        self._store = context["task_state_store"]
        #: The id of an operator that is called within another task; empty for the task's own operator.
        self.called_id = "" if task_id == ti.task_id else task_id
        self._instance = [ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index]
        #: By the name of a value, the names of its parts.
        self._parts: dict[str, list[str]] = {}

    def get(self, key: str) -> Any:
        """The value that :meth:`set` stored for this task instance, or None."""
        name = self._own(key)
        stored = self._store.get(name)
        if stored is None:
            return None
        value, mac = (stored.get("value"), stored.get("mac")) if isinstance(stored, dict) else (None, None)
        if is_sealed(mac, [*self._instance, name, value], self._key):
            whole = self._joined(name, value)
            if whole is not None:
                return _unpacked(whole)
        log.warning(
            "What is stored as %r was not stored by this task instance: somebody has changed it by Airflow's API, or "
            "%s is another one than before. It counts as lost, and this try asks the target what was delivered.",
            name,
            STATE_KEY,
        )
        return None

    def set(self, key: str, value: Any) -> None:
        """Remember plain JSON, as long as Airflow has the DAG run, which may be cleared at any time."""
        name = self._own(key)
        earlier, stored = self._parts.get(name, []), self._in_parts(name, _packed(value))
        mac = seal([*self._instance, name, stored], self._key)
        # Until now the earlier value is whole.
        self._store.set(name, {"value": stored, "mac": mac}, retention=NEVER_EXPIRE)
        for part in earlier:
            if part not in self._parts[name]:
                self._store.delete(part)

    def publish(self, key: str, value: Any) -> None:
        """Store what others read, and no task takes for its own memory."""
        self._store.set(self._own(key), value, retention=NEVER_EXPIRE)

    def load(self, key: str, kind: type[T]) -> T | None:
        """What :meth:`save` stored, or None.

        :raises ProtocolError: if another version of this package stored it.
        """
        stored = self.get(key)
        return None if stored is None else decoded(key, kind, stored)

    def save(self, key: str, value: object) -> None:
        """Remember a dataclass."""
        self.set(key, encode(value, STATE_VERSION))

    def _in_parts(self, name: str, value: Any) -> Any:
        """What is stored by this name: the value, or the digests of its parts, which are stored here."""
        self._parts[name] = []
        text = value[_PACKED] if _is_packed(value) else ""
        if len(text) <= _PART:
            return value
        parts = [text[i : i + _PART] for i in range(0, len(text), _PART)]
        digests = [hashlib.sha256(part.encode()).hexdigest() for part in parts]
        self._parts[name] = [_part_name(name, digest) for digest in digests]
        for part_name, part in zip(self._parts[name], parts, strict=True):
            self._store.set(part_name, part, retention=NEVER_EXPIRE)
        return {_PARTS: digests}

    def _joined(self, name: str, value: Any) -> Any:
        """What :meth:`_in_parts` was given; None if a part is not as it was.

        :param value: what is stored by this name, which this deployment has sealed.
        """
        if not isinstance(value, dict) or value.keys() != {_PARTS}:
            return value
        self._parts[name] = [_part_name(name, digest) for digest in value[_PARTS]]
        parts = [str(self._store.get(part_name)) for part_name in self._parts[name]]
        digests = [hashlib.sha256(part.encode(errors="replace")).hexdigest() for part in parts]
        return {_PACKED: "".join(parts)} if digests == value[_PARTS] else None

    def _own(self, key: str) -> str:
        return f"{key}/{self.called_id}" if self.called_id else key

    @cached_property
    def _key(self) -> str:
        return state_key()


def _packed(value: Any) -> Any:
    """A large value as text of few bytes; its ranges may be thousands."""
    text = json.dumps(value, separators=(",", ":")).encode()
    if len(text) <= _LARGE:
        return value
    try:
        import lzma

        # It finds again what zlib, which looks back 32 KiB, stores once more.
        packed = lzma.compress(text)
    except ImportError:
        # A Python that was built without it.
        packed = zlib.compress(text, 9)
    return {_PACKED: base64.b64encode(packed).decode()}


def _unpacked(value: Any) -> Any:
    """:param value: of :func:`_packed`, which this deployment has sealed."""
    if not _is_packed(value):
        return value
    packed = base64.b64decode(value[_PACKED])
    if not packed.startswith(_XZ):
        return json.loads(zlib.decompressobj().decompress(packed, _MOST))
    try:
        import lzma
    except ImportError:
        raise ProtocolError(
            "The task's state was stored by a Python with lzma, and this worker's has none. Build it with liblzma, as "
            "those of the other workers."
        ) from None
    return json.loads(lzma.LZMADecompressor().decompress(packed, _MOST))


def _is_packed(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {_PACKED}


def _part_name(name: str, digest: str) -> str:
    return f"{name}.{digest[:16]}"


def decoded(key: str, kind: type[T], stored: object) -> T:
    """:raises ProtocolError: if another version of this package stored it."""
    remedy = (
        "Let the task finish with the version of airflow-provider-kafka-spark that it began with, or trigger a new run "
        "of the DAG, which copies all of it again."
    )
    return decode(kind, stored, version=STATE_VERSION, name=f"The task's state {key!r}", remedy=remedy)


def remember_success(context: Context) -> None:
    """As a task's ``on_success_callback``: what was delivered has been announced, and ``on_rerun`` decides on a clear.

    Only Airflow knows that a task succeeded: one that has delivered all may still fail by its XCom or its worker.
    """
    task = context["task"]
    if getattr(task, "plan_only", False):
        return
    store = TaskState(context, task.task_id)
    for key in (RUN_KEY, STREAM_KEY):
        stored = store.get(key)
        if isinstance(stored, dict) and stored.get("result") is not None:
            store.set(key, {**stored, "succeeded": True})
