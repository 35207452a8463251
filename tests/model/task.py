"""The steps of a Spark task: look, fence, load, look again (T1 to T4), and write in transactions (T5)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.world import AT_LEAST_ONCE, Driver, Scenario, Task, World, names_of

Steps = Iterator[tuple[str, World]]
RECREATED = ("the target is recreated", "the target is recreated, its marks elsewhere")


def start_tasks(scenario: Scenario, world: World, index: int) -> Steps:
    """Spark starts an attempt of a piece, which looks at the mark (T1)."""
    driver = world.drivers[index]
    if driver.step != "writes":
        return
    is_transactional = scenario.tries[driver.of_try].delivery != AT_LEAST_ONCE
    for piece, attempt in enumerate(driver.attempts):
        if piece in driver.done or attempt == (scenario.attempts if is_transactional else 1):
            continue
        if not _may_write(scenario, world, driver):
            continue
        attempts = (*driver.attempts[:piece], attempt + 1, *driver.attempts[piece + 1 :])
        task = Task(index, piece, attempt, step="T2" if is_transactional else "T5", position=driver.pieces[piece][0])
        following = world.with_driver(index, attempts=attempts)
        yield f"{_name(driver, task)} T1: the mark is ours", following._replace(tasks=world.tasks | {task})


def _name(driver: Driver, task: Task) -> str:
    return f"{driver.token}, task {task.piece}.{task.attempt}"


def _may_write(scenario: Scenario, world: World, driver: Driver) -> bool:
    asked = scenario.tries[driver.of_try]
    if asked.delivery == AT_LEAST_ONCE and not asked.may_mark:
        return True
    return scenario.rules.is_owner(world.mark, driver.claimant.number, driver.token)


def task_steps(scenario: Scenario, world: World, task: Task) -> Steps:
    driver, rules = world.drivers[task.driver], scenario.rules
    own, name = names_of(driver.pieces, rules.piece_name)[task.piece], _name(driver, task)
    if task.step == "T2":
        following = world.with_epochs([own])
        opened = task._replace(step="T3", epoch=following.epoch_of(own))
        yield f"{name} T2: opens its transactional id", following.with_task(task, opened)
    elif task.step == "T3":
        position = world.slots_of(driver.key).get(own, None if rules.requires_slot else driver.pieces[task.piece][0])
        if position is not None:
            loaded = task._replace(step="T4" if rules.looks_again else "T5", position=position)
            yield f"{name} T3: loads position {position}", _following(world, task, loaded)
    elif task.step == "T4":
        if _may_write(scenario, world, driver):
            yield f"{name} T4: the mark is still ours", _following(world, task, task._replace(step="T5"))
    elif scenario.tries[driver.of_try].delivery == AT_LEAST_ONCE:
        yield from _write_at_least_once(scenario, world, task)
    else:
        yield from _write(scenario, world, task)


def _left(driver: Driver, task: Task) -> list[int]:
    return [offset for offset in driver.pieces[task.piece] if offset >= task.position]


def _following(world: World, task: Task, following: Task) -> World:
    """The world in which a task goes on, or is done if nothing is left."""
    driver = world.drivers[task.driver]
    if following.step != "T5" or _left(driver, following):
        return world.with_task(task, following)
    done = tuple(sorted({*driver.done, task.piece}))
    return world.with_task(task, None).with_driver(task.driver, done=done)


def _write(scenario: Scenario, world: World, task: Task) -> Steps:
    """T5, with one record in each transaction: send and compare the ids; commit it with the position."""
    driver, rules = world.drivers[task.driver], scenario.rules
    name, offset = _name(driver, task), _left(driver, task)[0]
    if task.step == "T5" and offset in world.aged_out | world.compacted:
        yield from _pass_over(scenario, world, task)
    elif task.step == "T5":
        if rules.compares_ids and driver.incarnation != world.incarnation:
            return
        sent = task._replace(step="T5 commit", incarnation=world.incarnation)
        if not any(fault in world.faults for fault in RECREATED):
            # Only a target that is recreated in between tells this step from the next.
            yield from _commit(scenario, world, task, sent)
        else:
            yield f"{name} T5: sends offset {offset}", world.with_task(task, sent)
    else:
        yield from _commit(scenario, world, task, task)


def _pass_over(scenario: Scenario, world: World, task: Task) -> Steps:
    """What the source has lost is an error, or is left out; what compaction took is left out."""
    driver, offset = world.drivers[task.driver], _left(world.drivers[task.driver], task)[0]
    own = names_of(driver.pieces, scenario.rules.piece_name)[task.piece]
    may_lack = scenario.tries[driver.of_try].permits_loss or offset in world.compacted
    if may_lack and task.epoch == world.epoch_of(own):
        committed = world.with_slots(driver.key, {own: offset + 1})
        following = task._replace(position=offset + 1)
        yield f"{_name(driver, task)} T5: passes over offset {offset}", _following(committed, task, following)


def _commit(scenario: Scenario, world: World, before: Task, task: Task) -> Steps:
    driver = world.drivers[task.driver]
    own = names_of(driver.pieces, scenario.rules.piece_name)[task.piece]
    if task.epoch != world.epoch_of(own):
        return
    name, offset = _name(driver, task), _left(driver, task)[0]
    committed = world.with_slots(driver.key, {own: offset + 1})
    following = task._replace(step="T5", position=offset + 1, incarnation=0)
    if task.incarnation == world.incarnation:
        written = committed.with_record(driver.claimant.run_id, offset)
    else:
        written = committed
    yield f"{name} T5: commits offset {offset}", _following(written, before, following)
    if "a record is lost" in world.faults:
        faults = tuple(fault for fault in world.faults if fault != "a record is lost")
        lossy = committed._replace(faults=faults).with_driver(task.driver, has_lost=True)
        yield f"{name} T5: commits past offset {offset}, which it did not write", _following(lossy, before, following)


def _write_at_least_once(scenario: Scenario, world: World, task: Task) -> Steps:
    driver = world.drivers[task.driver]
    name, offset = _name(driver, task), _left(driver, task)[0]
    if task.step == "T5":
        written = world.with_record(driver.claimant.run_id, offset)
        yield f"{name}: writes offset {offset}", written.with_task(task, task._replace(step="T5 flush"))
    elif driver.incarnation == world.incarnation and _may_write(scenario, world, driver):
        following = task._replace(step="T5", position=offset + 1)
        yield f"{name}: looks at mark and target", _following(world, task, following)
