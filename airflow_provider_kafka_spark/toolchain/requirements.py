"""Whether what is installed beside this package is new enough: pip may have installed another version since."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from airflow_provider_kafka_spark.core.errors import RequirementError

#: The lowest versions, as ``setup.cfg`` has them, of what fails with an error that does not say so.
LOWEST = {
    "apache-airflow": "3.3.1",
    "apache-airflow-providers-apache-spark": "6.2",
    "confluent-kafka": "2.13",
}


def check_requirements() -> None:
    """Check the versions of what is installed, as far as their metadata are there.

    :raises RequirementError: naming all that is too old, with the command that installs what is needed.
    """
    found = {}
    for name in LOWEST:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            # Its modules may be there all the same, and if not, Python says so.
            continue
    old = [name for name, installed in found.items() if _numbers(installed) < _numbers(LOWEST[name])]
    if old:
        needed = " ".join(f"'{name}>={LOWEST[name]}'" for name in old)
        raise RequirementError(
            f"airflow-provider-kafka-spark needs {' and '.join(f'{name} {LOWEST[name]}' for name in old)} or newer; "
            f"got {' and '.join(found[name] for name in old)}. Run: pip install {needed}"
        )


def _numbers(text: str) -> tuple[int, ...]:
    """
    >>> _numbers("3.3.1+astro.1") < _numbers("3.10")
    True
    """
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()
