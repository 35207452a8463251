"""What the user of the page may do, in one answer. Airflow's API has no request for that: it refuses, and a browser's
console shows each refusal as an error, also of a request that only asks.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import partial
from http import HTTPStatus
from typing import Any

#: Ids of DAGs whose runs the page may offer to make, in the query.
DAG = "dag"


async def rights(scope: MutableMapping[str, Any]) -> tuple[HTTPStatus, dict[str, Any]]:
    """Ask Airflow's auth manager, as its API does, for the user whose session a request has.

    Airflow is imported by the first request: every process of Airflow imports this package's plugin.

    :param scope: of the request, by ASGI.
    :returns: a status and a body: ``assets``, ``task_instances`` and ``dags`` may be read, ``runs`` may be made in
        general, and of which of the DAGs in the query (``runs_of``). Without a session the status is 401.
    """
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api import security
    from fastapi import HTTPException, Request
    from fastapi.concurrency import run_in_threadpool

    request = Request(scope)
    try:
        user = await security.get_user(request, None, await security.bearer_scheme(request))
    except HTTPException as error:
        return HTTPStatus(error.status_code), {"detail": error.detail}

    def may(*checks: Callable[[Any, Any], None]) -> bool:
        try:
            for check in checks:
                check(request, user)
        except HTTPException:
            return False
        return True

    make_runs = partial(security.requires_access_dag, "POST", DagAccessEntity.RUN)

    def ask() -> dict[str, Any]:
        return {
            "assets": may(security.requires_access_asset("GET"), security.requires_access_asset_alias("GET")),
            "task_instances": may(security.requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE)),
            "dags": may(security.requires_access_dag("GET")),
            "runs": may(make_runs()),
            "runs_of": [dag_id for dag_id in request.query_params.getlist(DAG) if may(make_runs(dag_id))],
        }

    # An auth manager may ask a database, or another server.
    return HTTPStatus.OK, await run_in_threadpool(ask)
