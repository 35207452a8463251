"""The steps of the worker: begin a try, judge the report, have the last word."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_kafka_spark.core.errors import RunTakenOverError
from airflow_provider_kafka_spark.core.runs.run_protocol import Claimant, Decision, counts_for
from tests.model.world import (
    AT_LEAST_ONCE,
    Driver,
    Result,
    Scenario,
    Stored,
    Try,
    Worker,
    World,
    key_of,
    offsets_of,
    permits_loss,
)

Steps = Iterator[tuple[str, World]]


def begin_try(scenario: Scenario, world: World) -> Steps:
    """Airflow starts the next try: a retry after one that ended in any way, a clear at any time."""
    index = len(world.workers)
    if index == len(scenario.tries):
        return
    asked = scenario.tries[index]
    if index and scenario.awaits_verdict and world.workers[-1].step != "ended":
        return
    is_green = world.store is not None and world.store.is_green
    if index and asked.kind == "retry" and (is_green or world.workers[-1].step == "green"):
        return
    earlier = world.workers
    if not scenario.workers_live_on:
        earlier = tuple(worker if worker.step == "green" else Worker("ended") for worker in earlier)
    world = world._replace(workers=earlier)
    stored = world.store
    if stored is not None and stored.result is not None and asked.kind == "retry":
        world = world._replace(
            workers=(*earlier, Worker("green")),
            greens=(*world.greens, stored.result),
            store=stored._replace(is_green=True),
        )
        yield f"try {index + 1} ({asked.kind}) returns the stored result: green", world
        return
    if scenario.is_stream:
        if any(worker.step == "green" for worker in earlier):
            # The batch is committed.
            return
        world = world._replace(store=None)
    for clock in scenario.clocks or (index + 1,):
        yield _submitted(scenario, world, asked, index, clock)


def _submitted(scenario: Scenario, world: World, asked: Try, index: int, clock: int) -> tuple[str, World]:
    run_id, may_have_delivered = ("run1", index > 0) if scenario.is_stream else _run(world, asked, index)
    stored = world.store
    in_store, elsewhere = 0 if stored is None else stored.number, _number_elsewhere(scenario, world)
    known = max(in_store, elsewhere if scenario.rules.knows_numbers else 0)
    number = scenario.rules.next_number(known, clock)
    untrusted_until = 0 if stored is None else stored.untrusted_until
    proved, proved_until, proved_repeats = (
        ((), 0, False)
        if stored is None or run_id != stored.run_id
        else (stored.proved, stored.proved_until, stored.proved_repeats)
    )
    if stored is not None and stored.result is not None and run_id == stored.run_id:
        # A clear after the delivery looks at the target.
        untrusted_until = proved_until = stored.number
        proved = tuple(sorted({*proved, *stored.result.offsets}))
        proved_repeats = proved_repeats or stored.result.may_have_duplicates
    is_at_least_once = any(t.delivery == AT_LEAST_ONCE for t in scenario.tries[: index + 1])
    # Nothing fences writers at least once, and they fence nobody: earlier ones have ended.
    if not scenario.drivers_live_on or (is_at_least_once and scenario.rules.ends_before_at_least_once):
        dead = (driver._replace(step="dead") for driver in world.drivers)
        world = world._replace(drivers=tuple(dead), tasks=frozenset())
    drivers = []
    for i in range(scenario.drivers):
        token = f"driver {len(world.drivers) + i + 1}"
        key = key_of(run_id, asked.delivery, world.incarnation, asked.plan, permits_loss=permits_loss(scenario, asked))
        carries = scenario.rules.carries
        of_worker = untrusted_until, carries, proved_until if carries else 0, _proved_key(stored), proved_repeats
        claimant = Claimant(
            number, token, run_id, key, may_have_delivered, *of_worker, reads_back=scenario.rules.reads_back
        )
        drivers.append(
            Driver(
                token,
                index,
                claimant,
                incarnation=world.incarnation,
                key=key,
                pieces=asked.plan,
                step="C0" if scenario.is_stream else "C1",
                proved_key=_proved_key(stored),
                proved=proved,
                highest_before=max(in_store, elsewhere),
            )
        )
    now_untrusted = number if asked.delivery == AT_LEAST_ONCE else untrusted_until
    world = world._replace(
        workers=(*world.workers, Worker("waits", number, run_id)),
        drivers=(*world.drivers, *drivers),
        store=Stored(
            number, run_id, now_untrusted, None, False, _proved_key(stored), proved, proved_until, proved_repeats
        ),
    )
    return f"try {index + 1} ({asked.kind}) stores and submits number {number} of run {run_id}", world


def _number_elsewhere(scenario: Scenario, world: World) -> int:
    """Beside the checkpoint, or in the mark."""
    if scenario.is_stream:
        return world.number_beside
    return 0 if world.mark is None else world.mark.number


def _proved_key(stored: Stored | None) -> str:
    return "" if stored is None else stored.proved_key


def _run(world: World, asked: Try, index: int) -> tuple[str, bool]:
    """The run, and whether the worker knows of an earlier submission of it."""
    stored, fresh = world.store, f"run{index + 1}"
    if asked.changes_run or (stored is not None and stored.is_green and asked.copies_again):
        return fresh, False
    if stored is not None:
        return stored.run_id, True
    if world.mark is not None and asked.kind != "first":
        return world.mark.run_id, True
    return fresh, False


def worker_steps(scenario: Scenario, world: World, index: int) -> Steps:
    worker = world.workers[index]
    name = f"worker {index + 1}"
    if worker.step == "waits":
        for driver in world.drivers:
            if driver.of_try == index and driver.step == "reported":
                yield from _judge(scenario, world, index, driver)
    elif worker.step == "judged":
        yield f"{name} reads the mark", world.with_worker(index, step="read", seen=world.mark)
    elif worker.step == "read":
        try:
            mark = scenario.rules.judged(
                worker.seen, worker.number, worker.run_id, proved=worker.is_good, leaves=worker.leaves_mark
            )
        except RunTakenOverError:
            return
        step = "finished" if worker.is_good else "ended"
        if worker.is_good and worker.leaves_mark:
            yield f"{name} leaves the mark as it is", world.with_worker(index, step=step)
            return
        following = world.with_mark(mark, scenario.rules).with_worker(index, step=step)
        yield f"{name} commits the mark {mark.state!r}", following
    elif worker.step == "finished":
        yield _green(scenario, world, index)


def _judge(scenario: Scenario, world: World, index: int, driver: Driver) -> Steps:
    worker, name = world.workers[index], f"worker {index + 1}"
    # A retry may have lost the state store, which the worker writes as it knows it.
    stored = world.store or Stored(worker.number, worker.run_id)
    is_good = not driver.duplicates and not driver.has_lost
    if is_good and not scenario.rules.counts_resumed:
        held = [at for at in offsets_of(scenario.tries[index].plan) if at not in world.compacted]
        has_more = len({at for run_id, at in world.records if run_id == worker.run_id}) > len(held)
        is_good, world = not has_more, world._replace(is_misjudged=has_more)
    if is_good:
        asked = scenario.tries[index]
        result = _result(asked, worker, driver)
        permits = permits_loss(scenario, asked)
        key = key_of(worker.run_id, asked.delivery, driver.incarnation, asked.plan, permits_loss=permits)
        if not driver.pieces and counts_for(driver.proved_key, key):
            # It has only counted.
            key = driver.proved_key
        following = world._replace(store=stored._replace(result=result, proved_key=key))
        following = following.with_worker(index, step="judged", leaves_mark=driver.leaves_mark)
        yield f"{name} judges the report good and stores the result", following
    if not is_good or "a bad verdict" in world.faults:
        faults = tuple(fault for fault in world.faults if is_good is False or fault != "a bad verdict")
        following = world._replace(store=stored._replace(untrusted_until=worker.number), faults=faults)
        changes = {"step": "judged", "is_good": False}
        yield f"{name} judges the report bad and stores that", following.with_worker(index, **changes)


def _result(asked: Try, worker: Worker, driver: Driver) -> Result:
    offsets = offsets_of(asked.plan)
    of_target = driver.ended_at, driver.repeats, worker.number, asked.permits_loss, driver.ended_with
    return Result(worker.run_id, offsets, *of_target)


def _green(scenario: Scenario, world: World, index: int) -> tuple[str, World]:
    worker = world.workers[index]
    stored = world.store
    driver = next(d for d in world.drivers if d.of_try == index and d.step == "reported")
    result = _result(scenario.tries[index], worker, driver)
    following = world._replace(
        store=None if stored is None else stored._replace(is_green=True),
        slots=world.slots if driver.decision is Decision.DELIVERED else frozenset(),
        greens=(*world.greens, result),
    )
    return f"worker {index + 1} removes the slots and ends: green", following.with_worker(index, step="green")
