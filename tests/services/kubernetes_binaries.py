"""Kubernetes' control plane, built from source by Go: there are no binaries in the package registries."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.toolchain.settings import cache_folder

log = logging.getLogger(__name__)

_SOURCES = Path(__file__).parents[1] / "kubernetes" / "cluster"
_NAMES = ("etcd", "kube")
#: Seconds, on a slow machine from nothing.
_BUILD_SECONDS = 2_400
INSTALL_COMMAND = "install Go 1.24 or newer (https://go.dev/dl/)"


def has_go() -> bool:
    """Whether the control plane can be built here."""
    return shutil.which("go") is not None


def binaries() -> Path:
    """The folder with ``etcd`` and ``kube``, which are built once for each version of their sources.

    :raises LocalServiceError: if they cannot be built
    """
    files = sorted(file for file in _SOURCES.rglob("*") if file.is_file())
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    folder = (cache_folder() or Path(tempfile.gettempdir())) / f"kubernetes-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Processes side by side build once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in _NAMES:
            if not (folder / name).exists():
                _build(name, folder)
    return folder


def _build(name: str, folder: Path) -> None:
    began, partial = time.monotonic(), folder / f"{name}.partial"
    # Without symbols it links in half of the time.
    command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(partial), f"./{name}"]
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    log.warning("Building %s of Kubernetes; the first time this takes minutes.", name)
    try:
        subprocess.run(
            command, cwd=_SOURCES, env=environment, check=True, capture_output=True, text=True, timeout=_BUILD_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        output = str(getattr(error, "stderr", "") or "")[-2_000:]
        raise LocalServiceError(
            f"Go must build {name} of Kubernetes; got {error}. {INSTALL_COMMAND}.\n{output}"
        ) from error
    partial.rename(folder / name)
    log.warning("Built %s in %.0f s.", name, time.monotonic() - began)


if __name__ == "__main__":
    binaries()
