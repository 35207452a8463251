"""What a task keeps between its tries, in Airflow's task state store, and Airflow's counters of its tries.

Who may trigger a DAG may also write to that store, by Airflow's API (``PUT .../state-store/...``), and who may see the
DAG reads it. So what a task takes for its own memory has a MAC, by a key that the API does not give away. What has
none, or that of another task instance, counts as lost: the run then goes on from what the target's brokers know.
"""

from __future__ import annotations

import base64
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
from airflow_provider_kafka_spark.core.wire.state_parts import (
    PART,
    PART_OF_JSON,
    in_parts,
    is_head,
    part_keys,
    text_of,
)
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
        name, stored, parts = self._own(key), _packed(value), dict[str, str]()
        if _is_packed(stored) and len(stored[_PACKED]) > PART:
            stored, parts = in_parts(name, stored[_PACKED], PART)
        self._replace(name, {"value": stored, "mac": seal([*self._instance, name, stored], self._key)}, parts)

    def publish(self, key: str, value: Any) -> None:
        """Store what others read, and no task takes for its own memory."""
        name, stored, parts = self._own(key), value, dict[str, str]()
        text = json.dumps(value, separators=(",", ":"))
        if len(text) > PART_OF_JSON:
            stored, parts = in_parts(name, text, PART_OF_JSON)
        self._replace(name, stored, parts)

    def _replace(self, name: str, value: Any, parts: Mapping[str, str]) -> None:
        """Until the value is stored the earlier one is whole. If this try dies meanwhile, parts of one of them stay."""
        earlier = self._parts[name] if name in self._parts else _stored_parts(name, self._store.get(name))
        for part_name, part in parts.items():
            self._store.set(part_name, part, retention=NEVER_EXPIRE)
        self._store.set(name, value, retention=NEVER_EXPIRE)
        self._parts[name] = list(parts)
        for part_name in earlier:
            if part_name not in parts:
                self._store.delete(part_name)

    def load(self, key: str, kind: type[T]) -> T | None:
        """What :meth:`save` stored, or None.

        :raises ProtocolError: if another version of this package stored it.
        """
        stored = self.get(key)
        return None if stored is None else decoded(key, kind, stored)

    def save(self, key: str, value: object) -> None:
        """Remember a dataclass."""
        self.set(key, encode(value, STATE_VERSION))

    def mac(self, content: str) -> str:
        """By it, what may be secret is known again, and nobody else reads it."""
        return seal([*self._instance, content], self._key)

    def _joined(self, name: str, value: Any) -> Any:
        """The value, of its parts if it has some; None if one of them is not as it was.

        :param value: what is stored by this name, which this deployment has sealed.
        """
        self._parts[name] = part_keys(name, value)
        if not is_head(value):
            return value
        text = text_of(value, [self._store.get(part_name) for part_name in self._parts[name]])
        return None if text is None else {_PACKED: text}

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


def _stored_parts(name: str, stored: object) -> list[str]:
    """The keys of the parts of what is stored by a name, sealed or published."""
    return part_keys(name, stored.get("value", stored) if isinstance(stored, dict) else None)


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
