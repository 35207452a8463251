"""The common base of operators that run a Spark job: submit options, link and kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from inspect import signature
from socket import gethostname
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.configuration import conf

from airflow_provider_kafka_spark.core.checks import text_or_none, unknown_parameters
from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.secrets import secrets_in_url
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobStarted, is_loopback
from airflow_provider_kafka_spark.failure import undated_run_explained
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.links.spark_application import SparkApplicationLink
from airflow_provider_kafka_spark.operators.lineage import check_transport
from airflow_provider_kafka_spark.operators.token_policy import DelegationTokenPolicy
from airflow_provider_kafka_spark.state.task_state import TaskState

if TYPE_CHECKING:
    from airflow.sdk import Context
    from requests.auth import AuthBase

    from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
    from airflow_provider_kafka_spark.hooks.kafka import KafkaHook

#: Parameters that are passed to the Spark provider's hook.
_SUBMIT_OPTIONS = (
    "conf files py_files archives driver_class_path jars packages exclude_packages "
    "repositories total_executor_cores executor_cores executor_memory driver_memory keytab principal proxy_user "
    "name num_executors status_poll_interval env_vars verbose spark_binary properties_file yarn_queue "
    "deploy_mode use_krb5ccache post_submit_commands track_driver_via_k8s_api yarn_track_via_rm_api yarn_rm_auth "
).split()

#: The templated parameters with a single text.
_TEXTS = (
    "spark_conn_id kafka_connector report_location files py_files jars driver_class_path packages exclude_packages "
    "keytab principal proxy_user name properties_file"
).split()


class SparkJobOperator(BaseOperator):
    """Submit a job of this package to the cluster of a Spark connection.

    :param spark_conn_id: Spark connection: master, deploy mode, queue. (templated)
    :param kafka_connector: where Spark's Kafka connector comes from, see
        :class:`~airflow_provider_kafka_spark.hooks.spark_job.SparkJobHook`. (templated)
    :param report_location: folder, as URI, for the report in cluster mode. (templated)

    All further parameters are those of the Spark provider's ``SparkSubmitOperator``, with the same meaning.
    """

    template_fields: Sequence[str] = tuple(
        (
            "spark_conn_id kafka_connector report_location conf files py_files jars driver_class_path packages "
            "exclude_packages keytab principal proxy_user name env_vars post_submit_commands properties_file"
        ).split()
    )
    operator_extra_links: Sequence[BaseOperatorLink] = (SparkApplicationLink(),)
    #: Parameters of all subclasses.
    use_delegation_token: bool | str
    min_token_lifetime: timedelta | float | None
    kafka_timeout: float

    def __init__(
        self,
        *,
        spark_conn_id: str = "spark_default",
        kafka_connector: str | None = None,
        report_location: str | None = None,
        conf: dict[str, Any] | None = None,
        files: str | None = None,
        py_files: str | None = None,
        archives: str | None = None,
        driver_class_path: str | None = None,
        jars: str | None = None,
        packages: str | None = None,
        exclude_packages: str | None = None,
        repositories: str | None = None,
        total_executor_cores: int | None = None,
        executor_cores: int | None = None,
        executor_memory: str | None = None,
        driver_memory: str | None = None,
        keytab: str | None = None,
        principal: str | None = None,
        proxy_user: str | None = None,
        name: str = "{{ task_instance_key_str }}",
        num_executors: int | None = None,
        status_poll_interval: int = 1,
        env_vars: dict[str, Any] | None = None,
        verbose: bool = False,
        spark_binary: str | None = None,
        properties_file: str | None = None,
        yarn_queue: str | None = None,
        deploy_mode: str | None = None,
        use_krb5ccache: bool = False,
        post_submit_commands: list[str] | None = None,
        track_driver_via_k8s_api: bool = False,
        yarn_track_via_rm_api: bool = False,
        yarn_rm_auth: AuthBase | None = None,
        openlineage_inject_parent_job_info: bool | None = None,
        openlineage_inject_transport_info: bool | None = None,
        **kwargs: Any,
    ) -> None:
        try:
            super().__init__(**kwargs)
        except TypeError as error:
            known = {name for each in type(self).__mro__[:-1] for name in signature(each).parameters}
            raise TypeError(unknown_parameters(kwargs, known) or str(error)) from None
        self.spark_conn_id = spark_conn_id
        self.kafka_connector = kafka_connector
        self.report_location = report_location
        self.conf = conf
        self.files = files
        self.py_files = py_files
        self.archives = archives
        self.driver_class_path = driver_class_path
        self.jars = jars
        self.packages = packages
        self.exclude_packages = exclude_packages
        self.repositories = repositories
        self.total_executor_cores = total_executor_cores
        self.executor_cores = executor_cores
        self.executor_memory = executor_memory
        self.driver_memory = driver_memory
        self.keytab = keytab
        self.principal = principal
        self.proxy_user = proxy_user
        self.name = name
        self.num_executors = num_executors
        self.status_poll_interval = status_poll_interval
        self.env_vars = env_vars
        self.verbose = verbose
        self.spark_binary = spark_binary
        self.properties_file = properties_file
        self.yarn_queue = yarn_queue
        self.deploy_mode = deploy_mode
        self.use_krb5ccache = use_krb5ccache
        self.post_submit_commands = post_submit_commands
        self.track_driver_via_k8s_api = track_driver_via_k8s_api
        self.yarn_track_via_rm_api = yarn_track_via_rm_api
        self.yarn_rm_auth = yarn_rm_auth
        self.openlineage_inject_parent_job_info = openlineage_inject_parent_job_info
        self.openlineage_inject_transport_info = openlineage_inject_transport_info
        self.spark_application_url: str | None = None
        self._spark_hook: SparkJobHook | None = None
        self._tokens = DelegationTokenPolicy()

    def render_template(self, *args: Any, **kwargs: Any) -> Any:
        """Airflow's method, with an error that says what to do if a run has no data interval."""
        with undated_run_explained():
            return super().render_template(*args, **kwargs)

    def pre_execute(self, context: Context) -> None:  # noqa: ARG002 - Airflow's
        """Take the link from this process until it is known where it leads: Airflow stores even an empty one."""
        self.operator_extra_links = ()

    def on_kill(self) -> None:
        """Stop the Spark job on any cluster, and expire its delegation tokens; ``execute`` then fails."""
        self._tokens.end()
        if self._spark_hook is not None:
            self._spark_hook.kill()

    def _new_spark_hook(self, context: Context, delivery: str) -> SparkJobHook:
        """
        :param delivery: the delivery mode, which decides whether Spark may repeat a task.
        """
        options = {name: getattr(self, name) for name in _SUBMIT_OPTIONS}
        self._spark_hook = SparkJobHook(
            self.spark_conn_id,
            kafka_connector=self.kafka_connector,
            report_location=self.report_location,
            submit_options={**options, "conf": self._with_lineage(dict(self.conf or {}), context)},
            delivery=delivery,
        )
        return self._spark_hook

    def _with_lineage(self, properties: dict[str, Any], context: Context) -> dict[str, Any]:
        """Spark properties that link the job's OpenLineage events to this task, if the author or Airflow's
        configuration enables it.

        :raises OptionError: if the transport has a login.
        """
        wanted = (
            (self.openlineage_inject_parent_job_info, "parent_job"),
            (self.openlineage_inject_transport_info, "transport"),
        )
        for given, kind in wanted:
            if conf.getboolean("openlineage", f"spark_inject_{kind}_info", fallback=False) if given is None else given:
                # Only here: the import of OpenLineage's client takes longer than that of this module.
                from airflow.providers.common.compat.openlineage.utils import spark

                inject = getattr(spark, f"inject_{kind}_information_into_spark_properties")
                before, properties = properties, inject(properties, context)
                check_transport(before, properties)
        return properties

    def _check_submit_types(self) -> None:
        """Check the types of rendered templates and of arguments."""
        if not isinstance(self.conf or {}, Mapping):
            raise OptionError(
                "conf must map Spark properties to values, such as {'spark.executor.memory': '2g'}; got "
                f"{self.conf!r}."
            )
        if not isinstance(self.env_vars or {}, Mapping):
            raise OptionError(
                "env_vars must map names to values, such as {'SPARK_LOCAL_IP': '127.0.0.1'}; got no mapping."
            )
        for name in _TEXTS:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or "\0" in value):
                raise OptionError(f"{name} must be a text without zero characters; got {value!r}. Correct it.")
        if secrets_in_url(self.repositories or ""):
            raise OptionError(
                "repositories must have no password: every user of the machine can read the arguments of a process. "
                "Put it into a file of Ivy settings, and give that as conf['spark.jars.ivySettings']."
            )
        for name in ("conf", "env_vars"):
            for key, value in (getattr(self, name) or {}).items():
                if "\0" in f"{key}{value}":
                    raise OptionError(
                        f"{name}[{key!r}] must have no zero character, which no process can be given. Correct it."
                    )
        if self.deploy_mode not in (None, "client", "cluster"):
            raise OptionError(f"deploy_mode must be 'client' or 'cluster'; got {self.deploy_mode!r}.")

    def _read_tokens(self) -> None:
        """Read the rendered parameters on delegation tokens.

        :raises OptionError: if they are invalid or contradict each other.
        """
        min_lifetime = text_or_none(self.min_token_lifetime)
        self._tokens = DelegationTokenPolicy(self.use_delegation_token, min_lifetime, self.kafka_timeout)

    def _logins(
        self, context: Context, spark: SparkJobHook, source: KafkaHook, sink: KafkaHook
    ) -> AbstractContextManager[JobCredentials]:
        """The logins of the job while it runs."""
        return self._tokens.logins(TaskState(context, self.task_id), spark.cluster, source, sink)

    def _on_event(self, context: Context, event: JobEvent) -> None:
        if isinstance(event, JobStarted):
            self._announce_application(context, event)
        else:
            self.log.info("Progress: %s", event)

    def _announce_application(self, context: Context, started: JobStarted) -> None:
        """Log the application while it runs, and make the link if it leads somewhere when the job has ended."""
        hook = self._spark_hook
        self.spark_application_url = None if hook is None else hook.page_after_end(started.application_id)
        address = started.ui_url or self.spark_application_url
        reach = f" (from the worker {gethostname()} only)" if address and is_loopback(address) else ""
        self.log.info("Spark application %s is running: %s%s", started.application_id, address or "(no UI)", reach)
        if self.spark_application_url is not None:
            self.operator_extra_links = type(self).operator_extra_links
            for link in self.operator_extra_links:
                context["ti"].xcom_push(key=link.xcom_key, value=self.spark_application_url)
