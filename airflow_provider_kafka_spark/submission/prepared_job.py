"""Prepare one run of ``spark-submit``: the author's submit options with those of this package, and the job's files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_provider_kafka_spark.clients.kafka_jvm import kerberos_properties
from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.secrets import REDACTION
from airflow_provider_kafka_spark.core.spark.driver_pod import check_secret_size, in_pod_path, pod_conf
from airflow_provider_kafka_spark.core.spark.file_names import CRASH_REPORT, LOGINS, REPORT
from airflow_provider_kafka_spark.core.spark.java_options import java_option
from airflow_provider_kafka_spark.core.spark.paths import absolute_paths
from airflow_provider_kafka_spark.core.spark.tuning import is_small, local_defaults, spark_defaults
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.protocol import JobRequest
from airflow_provider_kafka_spark.submission.job_files import (
    copy_private,
    job_script,
    read_file_of_login,
    without_secrets,
    write_code,
    write_code_folder,
    write_private,
    write_request,
)
from airflow_provider_kafka_spark.submission.spark_cluster import SparkCluster
from airflow_provider_kafka_spark.submission.yarn_rest import COMMON_TAG
from airflow_provider_kafka_spark.toolchain.class_archive import ClassArchive
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.settings import CLASS_ARCHIVE
from airflow_provider_kafka_spark.toolchain.writer_jar import WriterJar

DEFAULT_CONF = {
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
    # A copy has no shuffle to adapt, and planning it takes some tenths of a second.
    "spark.sql.adaptive.enabled": "false",
}
#: The working folder of an executor, which no other user can write. On YARN and Kubernetes an executor has a temporary
#: folder of its own; on a standalone cluster it would use that of the machine.
_EXECUTOR_TEMPORARY = "-Djava.io.tmpdir=."
_TAGS = "spark.yarn.tags"
_PYTHON_PATH = "PYTHONPATH"
#: The first compiler alone starts a JVM in about 70 % of the time.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
#: Of the JVM that makes the driver's command line, in the job's folder: a shell splits them and knows no quotes.
LAUNCHER_OPTIONS = f"{FIRST_COMPILER} -Djava.io.tmpdir=."
#: For a driver with a local master. Its UI follows SPARK_LOCAL_IP only.
LOCAL_ENVIRONMENT = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


@dataclass(frozen=True)
class PreparedJob:
    """The options and files of a job.

    :param script: the file that ``spark-submit`` starts.
    :param options: for the Spark provider's hook.
    :param environment: of ``spark-submit``, in addition to what it inherits.
    :param working_folder: where ``spark-submit`` runs: Spark's class path begins with a relative folder, which others
        must not fill.
    :param report_uri: where the job writes its report.
    :param pod: of the driver on Kubernetes, which waits for a Secret of its name; empty elsewhere.
    :param secret: the contents of this Secret. **Secret.**
    """

    script: str
    options: Mapping[str, Any]
    environment: Mapping[str, str]
    working_folder: str
    report_uri: str
    pod: str = ""
    secret: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def prepare_job(
    cluster: SparkCluster,
    request: JobRequest,
    logins: JobCredentials,
    folder: Path,
    tag: str = "",
    *,
    waits: bool = True,
) -> PreparedJob:
    """Write the files of a job, and return its options.

    :param request: ``report_uri``, where it is empty, and ``owner_pid`` are filled in here.
    :param logins: the logins of the request's options, for the files and Java properties that they need.
    :param folder: readable by this user only, and removed after the job.
    :param tag: of the application on YARN; on Kubernetes, the name of the driver's pod.
    :param waits: ``spark-submit`` ends with the job, and not with its submission.
    """
    reports = cluster.report_folder
    report_uri = request.report_uri or (report_uri_in(reports, request.run_id) if reports else str(folder / REPORT))
    referring, logins_file = _without_secrets(cluster, request, folder)
    # A driver on this machine ends itself when its worker is gone.
    owner = None if reports else os.getpid()
    request_file = write_request(folder, replace(referring, report_uri=report_uri, owner_pid=owner))
    if cluster.deployment.driver_on_worker and not cluster.deployment.executors_on_worker:
        # A driver in the job's folder finds the files of a login by their base name, as executors elsewhere do.
        for path in logins.files:
            copy_private(path, folder)
    options = submit_options(cluster, folder, request_file, logins, logins_file)
    _add_writer(cluster, options)
    in_pod = cluster.deployment.in_pod
    script, secret = job_script(request.job), dict[str, bytes]()
    if in_pod:
        secret = _to_secret(options, logins, script, logins_file, request_file)
        options["conf"] |= pod_conf(tag)
    elif tag:
        given = options["conf"].get(_TAGS) or cluster.file_properties.get(_TAGS)
        options["conf"][_TAGS] = _joined(given, COMMON_TAG, tag)
    if not waits and cluster.deployment.wait_property is not None:
        options["conf"][cluster.deployment.wait_property] = "false"
        options.pop(cluster.deployment.followed_by or "", None)
    return PreparedJob(
        script=f"local://{in_pod_path(script)}" if in_pod else str(script),
        options=options,
        environment=_jvm_environment(cluster, request, _class_archive(cluster, options), folder, logins),
        working_folder=str(folder),
        report_uri=report_uri,
        pod=tag if in_pod else "",
        secret=secret,
    )


def _to_secret(
    options: dict[str, Any], logins: JobCredentials, script: Path, logins_file: Path | None, request_file: Path
) -> dict[str, bytes]:
    """Take the job's own files out of the options, which would upload them, into a Secret.

    :raises OptionError: if a Secret cannot hold them.
    """
    code = Path(options["py_files"].rpartition(",")[2])
    own = [code, script, request_file, *([logins_file] if logins_file else [])]
    files = {path.name: path.read_bytes() for path in own}
    files |= {Path(path).name: read_file_of_login(path) for path in logins.files}
    check_secret_size(files)
    options["py_files"] = options["py_files"].removesuffix(str(code)) + f"local://{in_pod_path(code)}"
    sent = {str(path) for path in (*own, *map(Path, logins.files))}
    options["files"] = ",".join(path for path in options["files"].split(",") if path not in sent) or None
    options["application_args"] = [in_pod_path(request_file)]
    return files


def report_uri_in(reports: str, run_id: str) -> str:
    """A new file in the folder of reports."""
    return f"{reports.rstrip('/')}/{run_id}-{time.time_ns()}.json"


def _without_secrets(cluster: SparkCluster, request: JobRequest, folder: Path) -> tuple[JobRequest, Path | None]:
    """The request with references in place of secrets, and the file with the secrets, if there are any."""
    file = folder / LOGINS
    path = str(file) if cluster.deployment.executors_on_worker else f"{cluster.deployment.folder}/{file.name}"
    referring, secrets = without_secrets(request, path)
    if secrets is None:
        return request, None
    if set(path) & set(":},"):
        raise OptionError(
            f"The path of the file that Kafka's Java client reads logins from must have no ':', ',' and '}}'; "
            f"got {path!r}. Correct TMPDIR."
        )
    return referring, write_private(file, secrets)


def submit_options(
    cluster: SparkCluster, folder: Path, request_file: Path, logins: JobCredentials, logins_file: Path | None = None
) -> dict[str, Any]:
    """The submit options of one run: the author's, and those of this package."""
    options, deployment = dict(cluster.submit_options), cluster.deployment
    # spark-submit runs in the job's folder, so paths on this machine must be absolute.
    of_cluster = {} if deployment.driver_on_worker else {"driver_class_path": options.get("driver_class_path")}
    options = {**absolute_paths(options, Path.cwd()), **of_cluster}
    options["conf"] = _conf(cluster, options, folder, logins)
    for name, value in cluster.jars.options((logins.source, logins.target)).items():
        options[name] = _joined(options.get(name), value, separator=":" if name == "driver_class_path" else ",")
    if not deployment.executors_on_worker:
        options["py_files"] = _joined(options.get("py_files"), str(write_code(folder)))
    travelling = list(logins.files)
    if logins_file and not deployment.executors_on_worker:
        travelling.append(str(logins_file))
    if deployment.driver_on_worker:
        options["application_args"] = [str(request_file)]
    else:
        travelling.append(str(request_file))
        options["application_args"] = [request_file.name]
    if travelling:
        options["files"] = _joined(options.get("files"), *travelling)
    if deployment.executors_on_worker:
        inherited = {name: value for name, value in LOCAL_ENVIRONMENT.items() if name not in os.environ}
        environment = {**inherited, **(options.get("env_vars") or {})}
        path = environment.get(_PYTHON_PATH, os.environ.get(_PYTHON_PATH))
        environment[_PYTHON_PATH] = _joined(str(write_code_folder(folder)), path, separator=":")
        options["env_vars"] = environment
    return options


def _conf(cluster: SparkCluster, options: Mapping[str, Any], folder: Path, logins: JobCredentials) -> dict[str, Any]:
    """Spark's properties: this package's, then the author's."""
    is_local = cluster.deployment.executors_on_worker
    conf = {
        **DEFAULT_CONF,
        **spark_defaults(),
        **(_local_defaults(cluster, folder) if is_local else {}),
        **REDACTION,
        **cluster.required_conf,
        **cluster.deployment.wait_conf(cluster.submit_options),
        **logins.spark_settings,
        **(options.get("conf") or {}),
    }
    defined = " ".join(java_option(f"-D{name}={value}") for name, value in logins.system_properties.items())
    return conf if is_local else {**conf, **_java_options(cluster, conf, defined)}


def _local_defaults(cluster: SparkCluster, folder: Path) -> dict[str, str]:
    """Defaults that the author's properties file does not set; ``conf`` would replace its values."""
    return {name: value for name, value in local_defaults(str(folder)).items() if name not in cluster.file_properties}


def _joined(*lists: str | None, separator: str = ",") -> str:
    return separator.join(filter(None, lists))


def _java_options(cluster: SparkCluster, conf: Mapping[str, Any], defined: str) -> dict[str, str]:
    """Settings that pass ``defined`` to driver and executors on other machines, in addition to the options of ``conf``
    and Spark's properties file.
    """
    settings, in_file = {}, cluster.file_properties
    for role in ("driver", "executor"):
        # Spark puts the default ones before the extra ones; the extra ones of conf would replace those of the file.
        default, extra = f"spark.{role}.defaultJavaOptions", f"spark.{role}.extraJavaOptions"
        name, given = (extra, conf[extra]) if conf.get(extra) else (default, conf.get(default, in_file.get(default)))
        # Of two values of one property the later one counts, here the author's.
        before = _EXECUTOR_TEMPORARY if role == "executor" and cluster.deployment.shares_executors else ""
        if before or defined:
            settings[name] = _joined(before, given, defined, separator=" ")
    return settings


def _add_writer(cluster: SparkCluster, options: dict[str, Any]) -> None:
    """Put the writer's classes on the class path of a local driver, if `prepare` has compiled them for that driver."""
    class_path = options.get("driver_class_path")
    # With the author's jars first, the driver may have another Kafka client than its class path.
    if not cluster.deployment.executors_on_worker or not class_path or cluster.prefers_user_jars:
        return
    if CLASS_ARCHIVE.flag():
        writer = WriterJar(find_java(cluster.spark_home.minimum_java), cluster.spark_home, class_path)
        options["driver_class_path"] = writer.extended_class_path()


def _class_archive(cluster: SparkCluster, options: Mapping[str, Any]) -> ClassArchive | None:
    if not cluster.deployment.executors_on_worker:
        return None
    # Spark takes the property only without the option.
    class_path = options.get("driver_class_path") or options["conf"].get("spark.driver.extraClassPath") or ""
    archive = ClassArchive(find_java(cluster.spark_home.minimum_java), cluster.spark_home, class_path)
    return archive if archive.is_wanted else None


def _jvm_environment(
    cluster: SparkCluster, request: JobRequest, archive: ClassArchive | None, folder: Path, logins: JobCredentials
) -> dict[str, str]:
    """JVM options for the logins, private files and a faster start, for the environment of ``spark-submit``.

    Spark's launcher reads it in addition to ``spark.driver.extraJavaOptions``, which stays the author's.
    """
    # Libraries for compression and networking unpack native code there and load it. A folder for all users would let
    # another one replace it.
    properties = {"java.io.tmpdir": folder, **kerberos_properties(), **logins.system_properties}
    options = [java_option(f"-D{name}={value}") for name, value in properties.items()]
    # A JVM that crashes dumps its memory and its environment.
    java = find_java(cluster.spark_home.minimum_java)
    options += map(java_option, java.crash_options(str(folder / CRASH_REPORT)))
    if not cluster.deployment.executors_on_worker:
        return {"SPARK_SUBMIT_OPTS": " ".join(options)}
    options += [FIRST_COMPILER] if is_small(request.planned_offsets) else []
    if archive is not None:
        options.append(archive.jvm_options())
    return {"SPARK_SUBMIT_OPTS": " ".join(filter(None, options)), "SPARK_LAUNCHER_OPTS": LAUNCHER_OPTIONS}
