from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

import pytest

from airflow_provider_kafka_spark.core.errors import RequirementError
from airflow_provider_kafka_spark.toolchain import requirements
from airflow_provider_kafka_spark.toolchain.requirements import LOWEST, check_requirements

AIRFLOW, SPARK, KAFKA = LOWEST
_NEW = {AIRFLOW: "3.10.0+service.1", SPARK: "6.2.0", KAFKA: "2.13.0"}


@pytest.mark.parametrize(
    ("installed", "text"),
    [
        pytest.param(_NEW, None, id="new-enough"),
        pytest.param({AIRFLOW: "3.3.1rc1"}, None, id="without-metadata"),
        pytest.param(
            {**_NEW, AIRFLOW: "3.2.1"},
            "needs apache-airflow 3.3.1 or newer; got 3.2.1. Run: pip install 'apache-airflow>=3.3.1'",
            id="older-airflow",
        ),
        pytest.param(
            {**_NEW, SPARK: "6.1.0", KAFKA: "2.9.0"},
            f"needs {SPARK} 6.2 and {KAFKA} 2.13 or newer; got 6.1.0 and 2.9.0. Run: pip install '{SPARK}>=6.2' "
            f"'{KAFKA}>=2.13'",
            id="two",
        ),
    ],
)
def test_what_is_too_old_is_named_with_what_to_install(
    installed: dict[str, str], text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(requirements, "version", version)
    if text is None:
        check_requirements()
    else:
        with pytest.raises(RequirementError, match=re.escape(text)):
            check_requirements()


def test_the_lowest_versions_are_those_that_pip_requires() -> None:
    required = [line.replace(" ", "") for line in requires("airflow-provider-kafka-spark") or ()]

    for name, lowest in LOWEST.items():
        pattern = rf"{name}[<>=,.\d]*>={re.escape(lowest)}(,|;|$)"
        assert [line for line in required if re.match(pattern, line)]
