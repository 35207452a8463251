"""Files that worker and driver share, as the worker reaches them."""

from __future__ import annotations

import re
from pathlib import Path

from airflow.sdk import ObjectStoragePath


def shared_path(uri: str) -> Path | ObjectStoragePath:
    """A path or a URI as Hadoop spells it, for the worker: on its own disk, or through Airflow's object storage."""
    local = re.sub(r"^file:(//)?(?=/)", "", uri)
    if "://" not in local:
        return Path(local)
    # Hadoop calls it s3a, Airflow's object storage s3.
    return ObjectStoragePath(re.sub(r"^s3[an]:", "s3:", local))


def hadoop_uri(path_or_uri: str) -> str:
    """The same place for Hadoop, to which a path without a scheme would be one on its default file system."""
    return path_or_uri if "://" in path_or_uri or path_or_uri.startswith("file:") else f"file://{path_or_uri}"
