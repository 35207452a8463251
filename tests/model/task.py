"""The steps of a Spark task: look, fence, load, look again (T1 to T4), and write in transactions (T5)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.world import AT_LEAST_ONCE, Driver, Scenario, Task, World, names_of

Steps = Iterator[tuple[str, World]]
RECREATED = ("the target is recreated", "the target is recreated, its marks elsewhere")


def start_tasks(scenario: Scenario, world: World, index: int) -> Steps:
    """Spark starts an attempt of a task, which looks at the mark (T1)."""
    driver = world.drivers[index]
    if driver.step != "writes":
        return
    is_transactional = scenario.tries[driver.of_try].delivery != AT_LEAST_ONCE
    for piece, attempt in enumerate(driver.attempts):
        if piece in driver.done or attempt == (scenario.attempts if is_transactional else 1):
            continue
        if piece != _first_piece(scenario, piece):
            continue
        if not _may_write(scenario, world, driver):
            continue
        attempts = (*driver.attempts[:piece], attempt + 1, *driver.attempts[piece + 1 :])
        task = Task(index, piece, attempt, step="T2" if is_transactional else "T5", position=driver.pieces[piece][0])
        following = world.with_driver(index, attempts=attempts)
        yield f"{_name(driver, task)} T1: the mark is ours", following._replace(tasks=world.tasks | {task})


def _first_piece(scenario: Scenario, piece: int) -> int:
    return 0 if scenario.bundles else piece


def _id_of(scenario: Scenario, driver: Driver, task: Task) -> str:
    """The transactional id."""
    names = names_of(driver.pieces, scenario.rules.piece_name)
    return scenario.rules.task_id(names[_first_piece(scenario, task.piece)], task.attempt)


def _name(driver: Driver, task: Task) -> str:
    return f"{driver.token}, task {task.piece}.{task.attempt}"


def _may_write(scenario: Scenario, world: World, driver: Driver) -> bool:
    asked = scenario.tries[driver.of_try]
    if asked.delivery == AT_LEAST_ONCE and not asked.may_mark:
        return True
    # The rule of the writer, in Java.
    mark = world.mark
    return mark is not None and (mark.number, mark.token) == (driver.claimant.number, driver.token)


def task_steps(scenario: Scenario, world: World, task: Task) -> Steps:
    driver, rules = world.drivers[task.driver], scenario.rules
    slot, name = names_of(driver.pieces, rules.piece_name)[task.piece], _name(driver, task)
    if task.step == "T2":
        own = _id_of(scenario, driver, task)
        following = world.with_epochs([own])
        opened = task._replace(step="T3", epoch=following.epoch_of(own))
        yield f"{name} T2: opens its transactional id", following.with_task(task, opened)
    elif task.step == "T3":
        # Nobody else has written to the slot of a later piece since this task has fenced: it needs no other look.
        is_first = task.piece == _first_piece(scenario, task.piece)
        position = world.slots_of(driver.key).get(slot, None if rules.requires_slot else driver.pieces[task.piece][0])
        if not (is_first or rules.loads_each_slot):
            position = driver.pieces[task.piece][0]
        if position is not None:
            loaded = task._replace(step="T4" if rules.looks_again and is_first else "T5", position=position)
            yield f"{name} T3: loads position {position}", _following(scenario, world, task, loaded)
    elif task.step == "T4":
        if _may_write(scenario, world, driver):
            yield f"{name} T4: the mark is still ours", _following(scenario, world, task, task._replace(step="T5"))
    elif scenario.tries[driver.of_try].delivery == AT_LEAST_ONCE:
        yield from _write_at_least_once(scenario, world, task)
    else:
        yield from _write(scenario, world, task)


def _left(driver: Driver, task: Task) -> list[int]:
    return [offset for offset in driver.pieces[task.piece] if offset >= task.position]


def _following(scenario: Scenario, world: World, task: Task, following: Task) -> World:
    """The world in which a task goes on, with its next piece if nothing is left, or is done."""
    driver = world.drivers[task.driver]
    if following.step != "T5" or _left(driver, following):
        return world.with_task(task, following)
    done = tuple(sorted({*driver.done, task.piece}))
    if scenario.bundles:
        following = following._replace(piece=task.piece + 1)
        if following.piece < len(driver.pieces):
            if scenario.tries[driver.of_try].delivery == AT_LEAST_ONCE:
                return world.with_task(task, following._replace(position=driver.pieces[following.piece][0]))
            return world.with_task(task, following._replace(step="T3", position=0))
        done = tuple(range(len(driver.pieces)))
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
    own, slot = _id_of(scenario, driver, task), _slot_of(scenario, driver, task)
    may_lack = scenario.tries[driver.of_try].permits_loss or offset in world.compacted
    if may_lack and task.epoch == world.epoch_of(own):
        committed = world.with_slots(driver.key, {slot: offset + 1})
        following = task._replace(position=offset + 1)
        yield f"{_name(driver, task)} T5: passes over offset {offset}", _following(scenario, committed, task, following)


def _slot_of(scenario: Scenario, driver: Driver, task: Task) -> str:
    return scenario.rules.slot_of(names_of(driver.pieces, scenario.rules.piece_name), task.piece)


def _commit(scenario: Scenario, world: World, before: Task, task: Task) -> Steps:
    driver = world.drivers[task.driver]
    if task.epoch != world.epoch_of(_id_of(scenario, driver, task)):
        return
    name, offset = _name(driver, task), _left(driver, task)[0]
    committed = world.with_slots(driver.key, {_slot_of(scenario, driver, task): offset + 1})
    following = task._replace(step="T5", position=offset + 1, incarnation=0)
    if task.incarnation == world.incarnation:
        written = committed.with_record(driver.claimant.run_id, offset)
    else:
        written = committed
    yield f"{name} T5: commits offset {offset}", _following(scenario, written, before, following)
    if "a record is lost" in world.faults:
        faults = tuple(fault for fault in world.faults if fault != "a record is lost")
        lossy = committed._replace(faults=faults).with_driver(task.driver, has_lost=True)
        text = f"{name} T5: commits past offset {offset}, which it did not write"
        yield text, _following(scenario, lossy, before, following)


def _write_at_least_once(scenario: Scenario, world: World, task: Task) -> Steps:
    driver = world.drivers[task.driver]
    name, offset = _name(driver, task), _left(driver, task)[0]
    if task.step == "T5":
        written = world.with_record(driver.claimant.run_id, offset)
        yield f"{name}: writes offset {offset}", written.with_task(task, task._replace(step="T5 flush"))
    elif driver.incarnation == world.incarnation and _may_write(scenario, world, driver):
        following = task._replace(step="T5", position=offset + 1)
        yield f"{name}: looks at mark and target", _following(scenario, world, task, following)
