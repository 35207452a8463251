"""The applications of a YARN cluster: they are found, asked after and ended."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_kafka_spark.core.wire.job_events import is_web_address
from airflow_provider_kafka_spark.submission.cluster_applications import ClusterApplications
from airflow_provider_kafka_spark.submission.yarn_rest import ALIVE, ResourceManager, is_on_yarn

log = logging.getLogger(__name__)


class YarnApplications(ClusterApplications):
    """
    :param manager: finds the ResourceManager. It raises ValueError if the worker does not know its address, and
        RuntimeError if its login lacks a library.
    """

    def __init__(self, manager: Callable[[], ResourceManager]) -> None:
        self.manager = manager

    def kill(self, application_id: str) -> None:
        self._order(f"application {application_id}", lambda manager: manager.kill(application_id))

    def kill_tagged(self, tag: str) -> None:
        """Order the end of the applications with a tag. A failure is only logged."""
        self._order(f"the application with the tag {tag}", lambda manager: _kill_tagged(manager, tag))

    def status(self, application_id: str) -> str | None:
        return self.manager().status(application_id)

    def application_with_tag(self, tag: str) -> str | None:
        return next(filter(is_on_yarn, self.manager().applications(tag)), None)

    def page(self, application_id: str) -> str | None:
        # Jobs of other masters have an end, too, and YARN is not looked for then.
        if not is_on_yarn(application_id):
            return None
        try:
            page = f"{self.manager().address()}/cluster/app/{application_id}"
        except (ValueError, RuntimeError):
            return None
        return page if is_web_address(page) else None

    def _order(self, what: str, order: Callable[[ResourceManager], None]) -> None:
        try:
            order(self.manager())
        except (ValueError, RuntimeError) as error:
            self.may_run_on = True
            log.warning("On YARN %s may still run: %s. 'yarn application -kill' ends it.", what, error)


def _kill_tagged(manager: ResourceManager, tag: str) -> None:
    for application_id in filter(is_on_yarn, manager.applications(tag, ALIVE)):
        manager.kill(application_id)
