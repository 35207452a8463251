"""What ``conf`` must not say, since a job would be followed wrongly, write its records twice, or show a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.spark.driver_pod import POD_NAME
from airflow_provider_kafka_spark.submission.deployment import YARN_CLUSTER, Deployment

DEPLOY_MODE = "spark.submit.deployMode"
#: Properties that would submit a job to another cluster than the one that is queried for its end, and what sets them.
_OF_THE_CONNECTION = {
    "spark.master": "the host and port of the Spark connection",
    POD_NAME: "the run, so that another try finds the driver",
    DEPLOY_MODE: "deploy_mode, or 'deploy-mode' in the Extra of the Spark connection",
}
#: Two tasks with the same records would only fence each other; a second driver would not find the request.
ONE_WRITER: Mapping[str, str] = {"spark.speculation": "false", "spark.yarn.maxAppAttempts": "1"}
#: Without transactions, a repeated task writes its records again.
ONE_ATTEMPT = {"spark.task.maxFailures": "1"}
#: Properties whose values become arguments of the driver's JVM.
_DRIVER_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_SECRET_JAVA_OPTION = re.compile(
    r"-D[^=\s]*(secret|passw|passphrase|\.pwd|token|credential|hmac|(access|api|private|account|encryption).?key)[^=\s]*=",
    re.IGNORECASE,
)
#: The submit option by which a job on YARN is followed without ``spark-submit``.
FOLLOWS = str(YARN_CLUSTER.followed_by)


def check_conf(
    conf: Mapping[str, str], required: Mapping[str, str], deployment: Deployment, *, follows: object
) -> None:
    """
    :param required: what keeps records from being written twice.
    :param follows: the value of :data:`FOLLOWS`.
    :raises OptionError: naming the property.
    """
    for key, instead in _OF_THE_CONNECTION.items():
        if key in conf:
            raise OptionError(
                f"conf must not set {key}={conf[key]!r}: how a job is submitted, polled and stopped follows from "
                f"{instead}. Set it there."
            )
    for key in _DRIVER_JAVA_OPTIONS:
        if deployment.driver_on_worker and _SECRET_JAVA_OPTION.search(conf.get(key, "")):
            raise OptionError(
                f"conf must have no secret in {key}, since all users of the worker can read the arguments of the "
                "driver's JVM; got an option with the name of a secret. Put the options into a file with mode "
                f"0600, and set {key} to '@' and its path, such as '@/etc/spark/driver.options'."
            )
    for key, needed in required.items():
        if conf.get(key, needed).strip().lower() != needed:
            is_at_least_once = required.keys() >= ONE_ATTEMPT.keys()
            without = ", since delivery='at_least_once' has no transactions" if is_at_least_once else ""
            raise OptionError(
                f"conf must not set {key}={conf[key]!r}: records would be written by two at once, or "
                f"again{without}. Leave it out ({needed} is set), and let Airflow retry the task, which writes "
                "only what is missing."
            )
    key = str(YARN_CLUSTER.wait_property)
    if conf.get(key, "").strip().lower() == "false" and not follows:
        raise OptionError(
            f"conf must not set {key}=false: spark-submit would leave before the job ends, and without its "
            f"report the task cannot be green. Leave it out, or pass {FOLLOWS}=True, by which the job is "
            "followed without spark-submit."
        )


def check_one_attempt(master: str, conn_id: str) -> None:
    """:raises OptionError: if a local master would run a task again that has failed."""
    attempts = re.fullmatch(r"local\[[^,\]]*,\s*(\d+)\s*\]", master)
    if attempts and int(attempts[1]) > 1:
        raise OptionError(
            f"The master {master!r} of connection {conn_id!r} allows {attempts[1]} attempts for each task, and a task "
            "that runs again writes its records again. Use 'local[N]'."
        )
