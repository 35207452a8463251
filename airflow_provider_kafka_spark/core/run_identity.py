"""Names of a run's transactions and of its progress. No I/O.

Every transactional id and every consumer group of a run begins with the same prefix, for prefixed ACLs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

PREFIX = "airflow-kafka-spark-"
#: Kafka's own default, in ms: how long readers of the target wait for a job that died within a transaction.
TRANSACTION_TIMEOUT_MS = 60_000


def run_prefix(run_id: str) -> str:
    """The prefix of the transactional ids and groups of a run.

    The ids are the same in all plans of a run, so that a task fences those of an earlier plan too.
    """
    return f"{PREFIX}{run_id}-"


def progress_key(plan: str, target_ids: Mapping[str, str]) -> str:
    """The key of committed progress: 12 hexadecimal digits.

    A target that is created again has another id, so that its progress starts again.

    :param plan: digest of the plan; the same text for all batches of a stream.
    :param target_ids: id of each target topic.

    >>> progress_key("plan", {"copy": "id"})
    '6918ca936999'
    """
    content = json.dumps([plan, dict(sorted(target_ids.items()))])
    return hashlib.sha256(content.encode()).hexdigest()[:12]
