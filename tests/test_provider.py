"""Promises of the built package: what the wheel holds, and that Airflow finds the provider in a fresh environment."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

from airflow_provider_kafka_spark import __version__
from airflow_provider_kafka_spark.provider_info import get_provider_info
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.toolchain.jars import cache_root
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, MAVEN_REPOSITORY, maven_repository
from tests.services.dag_runs import PROGRAM

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

_CHECKOUT = Path(__file__).parent.parent
_PACKAGE = "airflow_provider_kafka_spark"
_DISTRIBUTION = "airflow-provider-kafka-spark"
_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")

# Runs in the fresh environment, where neither the checkout nor its tests are importable.
_IMPORT_ALL = """
import importlib, json
from importlib.metadata import entry_points
name = "airflow_provider_kafka_spark"
(entry,) = [e for e in entry_points(group="apache_airflow_provider") if e.module.startswith(name)]
info = entry.load()()
imported = []
for key in ("operators", "sensors", "hooks", "triggers"):
    for item in info.get(key, []):
        for module in item["python-modules"]:
            imported.append(importlib.import_module(module).__file__)
hooks = [c["hook-class-name"] for c in info.get("connection-types", [])]
for dotted in [*info["cli"], *info.get("extra-links", []), *hooks]:
    module, name = dotted.rsplit(".", 1)
    getattr(importlib.import_module(module), name)()
    imported.append(dotted)
print("RESULT" + json.dumps({"package": entry.dist.name, "info": info, "imported": imported}))
"""

_VERSIONS = """
import json
from importlib.metadata import version
print(json.dumps([version("pyspark"), version("pyspark-client")]))
"""


def uv(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run uv, with the cache that ``make`` uses, so that nothing is downloaded twice."""
    environment = {"UV_CACHE_DIR": str(_CHECKOUT / ".cache/uv"), **os.environ}
    # Set by make for this environment; the fresh one is not this one.
    environment.pop("VIRTUAL_ENV", None)
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


_ADDRESS = "https://git.example/a/b"
_README = """
[guide](docs/how-to/a.md#b) and [dags](dags), [here](#use-it), [Spark](https://spark.apache.org/), ![x](docs/x.png)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, with the repository's address filled in, and a README of links."""
    return build(tmp_path_factory.mktemp("build"), _ADDRESS)


def build(folder: Path, address: str) -> Path:
    """Build the wheel from a copy, since setuptools leaves folders where it builds."""
    checkout = folder / "checkout"
    # With everything that must not be in the wheel.
    shutil.copytree(_CHECKOUT, checkout, ignore=_NOT_COPIED)
    (checkout / "README.md").write_text(_README)
    setup = checkout / "setup.py"
    filled, count = re.subn(r'^REPOSITORY = ".*"$', f'REPOSITORY = "{address}"', setup.read_text(), flags=re.MULTILINE)
    assert count == 1
    setup.write_text(filled)
    uv("build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", folder / "dist", checkout)
    (built,) = (folder / "dist").glob("*.whl")
    return built


@pytest.fixture(
    scope="module", params=["tests'", *(pytest.param(n, marks=pytest.mark.long) for n in ("lowest", "newest"))]
)
def fresh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Iterator[Path]:
    """The wheel in a new environment, and nothing of this checkout. What it requires is that of the tests' environment,
    or in full the lowest that it permits, and the newest that there is.
    """
    folder = tmp_path_factory.mktemp("fresh")
    uv("venv", "--quiet", "--python", sys.executable, folder / "venv")
    python = folder / "venv/bin/python"
    if request.param in ("lowest", "newest"):
        resolution = "lowest-direct" if request.param == "lowest" else "highest"
        uv("pip", "install", "--quiet", "--python", python, "--resolution", resolution, f"{wheel}[spark4]")
        run(folder, "airflow", "db", "migrate")
    else:
        uv("pip", "install", "--quiet", "--python", python, "--no-deps", wheel)
        (site_packages,) = (folder / "venv/lib").glob("python*/site-packages")
        # Of the folder, the packages; not the files by which it leads to this checkout.
        (site_packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
        AirflowHome(folder / "airflow", folder / "dags", folder).migrate()
    yield folder
    # Some hundred MB, of which pytest would keep three.
    shutil.rmtree(folder)


def run(fresh: Path, module: str, *arguments: str, **environment: str) -> str:
    """Run a program of the fresh environment with an Airflow home of its own."""
    environment |= {
        "PATH": f"{fresh / 'venv/bin'}:{find_java().executable.parent}:/usr/bin:/bin",
        "HOME": str(fresh),
        "AIRFLOW_HOME": str(fresh / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    program = [str(fresh / "venv/bin/python"), "-m", module, *arguments]
    done = subprocess.run(program, capture_output=True, text=True, env=environment, cwd=fresh, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Every module is in the wheel, with the source of the writer, the coverage page and the example DAGs; tests and
    benchmarks are not. Name, license and the entry points are in the metadata.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (folder,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        metadata = archive.read(f"{folder}/METADATA").decode()
        entry_points = archive.read(f"{folder}/entry_points.txt").decode()

    assert {name.split("/")[0] for name in names} == {_PACKAGE, f"{_PACKAGE}-{__version__}.dist-info"}
    copied = wheel.parents[1] / "checkout"
    suffixes = (".py", ".java", ".html", ".js", ".css")
    modules = {str(file.relative_to(copied)) for file in (copied / _PACKAGE).rglob("*.*") if file.suffix in suffixes}
    assert len(modules) > 30
    assert (copied / "tests").is_dir()
    assert {name for name in names if name.startswith(f"{_PACKAGE}/")} >= modules
    assert f"{_PACKAGE}/py.typed" in names
    examples = {f"{_PACKAGE}/example_dags/{file.name}" for file in (copied / "dags").glob("*.py")}
    assert {name for name in names if "/example_dags/" in name} == examples != set()
    assert not [name for name in names if "/test_" in name or "conftest" in name]
    assert "Name: airflow-provider-kafka-spark\n" in metadata
    assert re.search(r"^License(-Expression)?: Apache-2.0$", metadata, re.MULTILINE)
    assert "[apache_airflow_provider]" in entry_points
    assert f"[airflow.plugins]\nkafka_spark_coverage = {_PACKAGE}.coverage_page.plugin:" in entry_points


@pytest.mark.parametrize(
    ("address", "urls", "text"),
    [
        pytest.param(
            _ADDRESS,
            {
                "Source, https://git.example/a/b",
                "Documentation, https://git.example/a/b/blob/main/docs/README.md",
                "Changelog, https://git.example/a/b/blob/main/CHANGELOG.md",
                "Issues, https://git.example/a/b/issues",
            },
            "[guide](https://git.example/a/b/blob/main/docs/how-to/a.md#b) and [dags](https://git.example/a/b/blob/main"
            "/dags), [here](#use-it), [Spark](https://spark.apache.org/), "
            "![x](https://git.example/a/b/raw/main/docs/x.png)",
            id="filled-in",
        ),
        pytest.param(
            "",
            set(),
            "guide and dags, [here](#use-it), [Spark](https://spark.apache.org/), x",
            id="empty",
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_package_index_gets_no_relative_link(
    address: str, urls: set[str], text: str, wheel: Path, tmp_path: Path
) -> None:
    """The repository's address is filled in at one place."""
    built = wheel if address == _ADDRESS else build(tmp_path, address)

    with zipfile.ZipFile(built) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    assert set(re.findall(r"^Project-URL: (.*)$", metadata, re.MULTILINE)) == urls
    assert metadata.partition("\n\n")[2].strip() == text
    assert "Description-Content-Type: text/markdown" in metadata


@pytest.mark.long
def test_airflow_finds_the_provider(fresh: Path) -> None:
    """``airflow providers list`` shows the provider under its package's name and version. The modules and classes of
    the metadata import from the installed wheel, with what the wheel requires and no more.
    """
    output = run(fresh, "airflow", "providers", "list", "--output", "json")

    # Airflow may log before the table.
    providers = json.loads(output[output.index("[{") :])
    ours = [p for p in providers if p["package_name"] == "airflow-provider-kafka-spark"]
    assert [p["version"] for p in ours] == [__version__]
    assert any(p["package_name"] == "apache-airflow-providers-apache-spark" for p in providers)

    (fresh / "import_all.py").write_text(_IMPORT_ALL)
    result: dict[str, Any] = json.loads(run(fresh, "import_all").partition("RESULT")[2])
    info = get_provider_info()
    assert result["package"] == info["package-name"] == "airflow-provider-kafka-spark"
    assert result["info"] == info
    named = [m for key in _KINDS for item in info[key] for m in item["python-modules"]]
    classes = [*info["cli"], *info["extra-links"], *info["connection-types"]]
    assert len(result["imported"]) == len(named) + len(classes)
    assert all(str(fresh) in file for file in result["imported"] if file.endswith(".py"))


_DAG = """
from airflow.sdk import DAG
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

with DAG("replay", schedule=None):
    ReplayOffsetRangesOperator(task_id="replay", offset_ranges=["{source}:0:20:50"], target_topic="{target}")
"""


@pytest.mark.long
@pytest.mark.broker
@pytest.mark.spark
def test_a_fresh_installation_replays(fresh: Path, kafka_broker: KafkaBroker, topic: TopicFactory) -> None:
    """The extra brings a Spark of one version whose connector is found, and a replay is delivered."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(value=b"%d" % i) for i in range(100)])
    dags = fresh / "dags"
    dags.mkdir()
    (dags / "replay.py").write_text(_DAG.format(source=source, target=target))
    extra = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    environment = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": extra}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        # It is behind the same mirror as this one, and takes what is prepared for the same Spark.
        MAVEN_REPOSITORY.variable: maven_repository() or "",
        CACHE_FOLDER.variable: str(cache_root()),
    }

    shutil.copy(PROGRAM / "__main__.py", fresh / "dag_run.py")
    run(fresh, "dag_run", "replay", str(fresh / "result.json"), **environment)

    (task,) = json.loads((fresh / "result.json").read_text())["tasks"]["replay"].values()
    result = task["xcom"]["return_value"]
    assert (result["records_written"], result["warnings"]) == (30, [])
    assert [record.value for record in kafka_broker.consume(target)] == [b"%d" % i for i in range(20, 50)]
    (fresh / "versions.py").write_text(_VERSIONS)
    assert set(json.loads(run(fresh, "versions"))) == {result["spark_version"]}


#: Which distributions bring a module: it reads the list of files of each of them.
_brought_by = cache(packages_distributions)


@pytest.mark.parametrize("folder", ["", "testing"], ids=["package", "testing"])
def test_what_is_imported_is_required(folder: str) -> None:
    """By this package itself: what another one happens to bring, it may leave out one day."""
    modules = [f for f in (_CHECKOUT / _PACKAGE).rglob("*.py") if ("testing" in f.parts) == (folder == "testing")]
    imported = {name for file in modules for name in _imports(ast.parse(file.read_text()))}
    brought_by = _brought_by()
    needed = {_distribution(name, brought_by) for name in imported if name.partition(".")[0] in brought_by}
    required = {re.match(r"[\w-]+", line)[0].lower() for line in requires(_DISTRIBUTION) or () if _is_for(line, folder)}  # type: ignore[index]

    assert len(needed) > (3 if folder else 6)
    # Airflow's own library for DAGs comes with the Airflow of its version, and what its API server raises, too.
    assert needed - required <= {_DISTRIBUTION, "apache-airflow-task-sdk", "apache-airflow-core", "fastapi"}


def _imports(node: ast.AST) -> Iterator[str]:
    """Names of modules that are imported where the code runs, and not only where its types are checked."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
        yield from _imports(child)


def _distribution(module: str, brought_by: Mapping[str, list[str]]) -> str:
    found = re.match(r"airflow\.providers\.(apache\.\w+|common\.\w+|\w+)", module)
    if found:
        return f"apache-airflow-providers-{found[1].replace('.', '-')}"
    top = module.partition(".")[0]
    return "apache-airflow" if top == "airflow" else brought_by[top][0].lower()


def _is_for(requirement: str, folder: str) -> bool:
    """The package may use what its extras bring, but those for tests; its folder testing has an extra of its own."""
    named = re.search(r"""extra == ['"](\w+)['"]""", requirement)
    return named is None or (named[1] == folder if folder else named[1] not in ("testing", "dev"))


#: What Airflow calls the modules of each kind, and the class that all of the kind come from.
_KINDS = {"operators": BaseOperator, "sensors": BaseSensorOperator, "triggers": BaseTrigger, "hooks": BaseHook}


def _built_on(folder: str, kind: type) -> Iterator[type]:
    """The classes in a folder of the package that users build on: named for their kind, and not a base of others."""
    for file in (_CHECKOUT / _PACKAGE / folder).glob("*.py"):
        for name, found in vars(importlib.import_module(f"{_PACKAGE}.{folder}.{file.stem}")).items():
            if isinstance(found, type) and issubclass(found, kind) and name.endswith(folder.rstrip("s").capitalize()):
                yield found


def test_the_provider_names_every_module_that_users_build_on() -> None:
    """A module of operators, sensors, triggers or hooks that users build on is not forgotten in the metadata."""
    info = get_provider_info()
    for folder, kind in _KINDS.items():
        classes = {c for c in _built_on(folder, kind) if c.__module__.startswith(f"{_PACKAGE}.{folder}.")}
        bases = {base for c in classes for base in c.__mro__[1:]}

        named = {module for item in info[folder] for module in item["python-modules"]}
        assert named == {c.__module__ for c in classes - bases}


def test_no_choice_of_the_connection_form_reads_null() -> None:
    """The form shows every choice as it is; one that is left empty shows its placeholder."""
    (connection_type,) = get_provider_info()["connection-types"]
    choices = {name: field["schema"].get("enum", ()) for name, field in connection_type["conn-fields"].items()}

    assert {name for name, of_field in choices.items() if of_field} >= {"sasl_mechanism", "delegation_mechanism"}
    assert [name for name, of_field in choices.items() if None in of_field] == []


def test_no_link_of_the_packages_page_is_relative() -> None:
    """The README is the page of the package index too, which has no other file of this project."""
    links = re.findall(r"\]\(([^)]*)\)", runpy.run_path(str(_CHECKOUT / "setup.py"))["_readme"]())

    assert [link for link in links if not link.startswith(("https://", "#"))] == []
