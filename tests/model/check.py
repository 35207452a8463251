"""What may happen to the brokers and to Airflow's task state store at any moment; and all steps of the model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tests.model.driver import driver_steps
from tests.model.search import Exploration, explore
from tests.model.task import start_tasks, task_steps
from tests.model.worker import begin_try, worker_steps
from tests.model.world import OLDER_MARK, Scenario, World, broken_promise

NOTHING = frozenset[tuple[str, str, int]]()


@cache
def check(scenario: Scenario) -> Exploration[World]:
    """Explore all that may happen in a scenario."""

    def steps(world: World) -> Iterator[tuple[str, World]]:
        yield from begin_try(scenario, world)
        for index in range(len(world.workers)):
            yield from worker_steps(scenario, world, index)
        for index in range(len(world.drivers)):
            yield from driver_steps(scenario, world, index)
            yield from start_tasks(scenario, world, index)
        for task in sorted(world.tasks):
            yield from task_steps(scenario, world, task)
        yield from fault_steps(world)

    return explore(World(faults=scenario.faults), steps, broken_promise)


def fault_steps(world: World) -> Iterator[tuple[str, World]]:
    for fault in dict.fromkeys(world.faults):
        left = list(world.faults)
        left.remove(fault)
        happened = _happen(fault, world)
        if happened is not None and happened != world:
            yield f"FAULT: {fault}", happened._replace(faults=tuple(left))


def _happen(fault: str, world: World) -> World | None:
    if fault == "the state store is lost":
        return world._replace(store=None)
    if fault == "a slot expires":
        return world._replace(slots=world.slots - {min(world.slots)}) if world.slots else None
    if fault == "the slots expire":
        return world._replace(slots=NOTHING)
    if fault in ("the mark expires", "the progress expires"):
        if world.mark is None:
            return None
        late = (driver._replace(is_late=driver.step in ("C1", "C2")) for driver in world.drivers)
        world = world._replace(mark=None, drivers=tuple(late))
        return world if fault == "the mark expires" else world._replace(slots=NOTHING)
    if fault == "a record ages out":
        return world._replace(aged_out=frozenset({0}))
    if fault == "the source is compacted":
        return world._replace(compacted=frozenset({0}))
    if fault == "the target is compacted":
        return world._replace(records=world.records[1:], compacted_records=world.records[:1])
    if fault == "the target is cut":
        return world._replace(leaders=world.leaders + 1, records=world.records[:-1])
    if fault == "the target has another leader":
        return world._replace(leaders=world.leaders + 1)
    if fault == OLDER_MARK:
        return None if world.older_mark is None else world._replace(mark=world.older_mark)
    if fault.startswith("the target is recreated"):
        world = world._replace(incarnation=world.incarnation + 1, records=())
        return world if fault.endswith("elsewhere") else world._replace(mark=None, slots=NOTHING)
    return None
