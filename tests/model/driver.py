"""The steps of a driver: the claim (C1 to C6), and the report when all its pieces are done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_kafka_spark.core.errors import RunTakenOverError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.pieces import split_name
from airflow_provider_kafka_spark.core.runs import run_protocol
from airflow_provider_kafka_spark.core.runs.carried_progress import ProvedDelivery, SlotProgress, carried
from airflow_provider_kafka_spark.core.runs.run_protocol import LATE_CLAIM_MS, Claimant, Decision, Mark, MarkState
from tests.model.world import (
    AT_LEAST_ONCE,
    Driver,
    Plan,
    Scenario,
    World,
    key_of,
    names_of,
    offsets_of,
    permits_loss,
    pieces_of,
)

Steps = Iterator[tuple[str, World]]


def driver_steps(scenario: Scenario, world: World, index: int) -> Steps:
    driver = world.drivers[index]
    if driver.step == "C0":
        yield from _take_number(scenario, world, index)
    elif driver.step == "C1":
        yield _open(scenario, world, index)
    elif driver.step == "C2":
        yield from _decide(scenario, world, index)
    elif driver.step in ("C4 mark", "C4 fence"):
        yield from _take_over(scenario, world, index)
    elif driver.step == "C5":
        yield _read(scenario, world, index)
    elif driver.step in ("C6 slots", "C6 mark"):
        yield from _commit(scenario, world, index)
    elif driver.step == "writes" and len(driver.done) == len(driver.pieces):
        yield from _report(scenario, world, index)


def _is_transactional(scenario: Scenario, driver: Driver) -> bool:
    return scenario.tries[driver.of_try].delivery != AT_LEAST_ONCE


def _take_number(scenario: Scenario, world: World, index: int) -> Steps:
    """A stream's driver writes its number beside the checkpoint, unless a higher one is there."""
    driver = world.drivers[index]
    if world.number_beside > driver.claimant.number:
        yield from _refused(world, index, world.number_beside)
        return
    following = world._replace(number_beside=driver.claimant.number).with_driver(index, step="C1")
    yield f"{driver.token} C0: writes its number {driver.claimant.number} beside the checkpoint", following


def _refused(world: World, index: int, number: int) -> Steps:
    """It fails, which is a fault where the number was there when its worker chose its own."""
    driver = world.drivers[index]
    if number <= driver.highest_before:
        yield f"{driver.token} is refused because of number {number}", world._replace(is_refused=True)


def _open(scenario: Scenario, world: World, index: int) -> tuple[str, World]:
    driver = world.drivers[index]
    if not _is_transactional(scenario, driver):
        return f"{driver.token} begins, at least once", world.with_driver(index, step="C2")
    opened = world.with_owner_opened(scenario.rules)
    following = opened.with_driver(index, step="C2", epoch=opened.owner_epoch)
    return f"{driver.token} C1: opens the owner's transactional id", following


def _decide(scenario: Scenario, world: World, index: int) -> Steps:
    driver, rules = world.drivers[index], scenario.rules
    mark = rules.latest([] if world.mark is None else [world.mark])
    now_ms = LATE_CLAIM_MS + 1 if driver.is_late else 0
    is_retry = rules.may_have_delivered(driver.claimant.may_have_delivered, 0, now_ms)
    claimant = replace(driver.claimant, may_have_delivered=is_retry, leaders=_leaders(scenario, world))
    claimant = replace(claimant, is_cut=_is_cut(scenario, world, driver, mark, claimant))
    world = world.with_driver(index, claimant=claimant)
    try:
        decision = rules.decide(mark, claimant)
    except RunTakenOverError:
        yield from _refused(world, index, 0 if mark is None else mark.number)
        return
    claims = True
    if not _is_transactional(scenario, driver):
        claims = scenario.tries[driver.of_try].may_mark
        if decision is Decision.CONTINUE:
            decision = Decision.READ_BACK
    elif not rules.fences(mark, claimant):
        claims = False
    step = ("C4 mark" if rules.marks_before_fencing else "C4 fence") if claims else "C5"
    seen = "no mark" if mark is None else f"mark {mark.number} {mark.state!r}"
    leaves = rules.leaves_mark(mark, claimant, decision)
    following = world.with_driver(index, step=step, decision=decision, seen=mark, leaves_mark=leaves)
    yield f"{driver.token} C2, C3: {seen}: {decision.name}", following


def _leaders(scenario: Scenario, world: World) -> str:
    return str(world.leaders + 1) if scenario.rules.compares_leaders else ""


def _is_cut(scenario: Scenario, world: World, driver: Driver, mark: Mark | None, claimant: Claimant) -> bool:
    """Whether the target lacks what the worker's proof tells of, or the slots do under another leader."""
    if not scenario.rules.compares_leaders:
        return False
    is_same = run_protocol.is_same_delivery(driver.proved_key, claimant.key)
    told = set[int]() if scenario.rules.reads_back or not is_same else set(driver.proved)
    is_open = mark is not None and (mark.run_id, mark.state) == (claimant.run_id, MarkState.OPEN.value)
    if mark is not None and is_open and run_protocol.may_be_cut(mark, claimant):
        for name, position in world.slots_of(mark.key).items():
            _, start, _ = split_name(name) or ("", 0, 0)
            told |= set(range(start, position))
    known = {*world.records, *world.compacted_records}
    return any((claimant.run_id, offset) not in known for offset in told)


def _may_mark(scenario: Scenario, world: World, driver: Driver) -> bool:
    """Whether a mark that this driver commits is taken: the compare-and-set."""
    is_compared = scenario.rules.compares_epochs and _is_transactional(scenario, driver)
    return not is_compared or driver.epoch == world.owner_epoch


def _take_over(scenario: Scenario, world: World, index: int) -> Steps:
    driver, rules = world.drivers[index], scenario.rules
    marks_first = rules.marks_before_fencing
    if driver.step == "C4 mark":
        if not _may_mark(scenario, world, driver):
            return
        assert driver.decision is not None
        mark = rules.claiming(driver.seen, driver.claimant, driver.decision)
        following = world.with_mark(mark, rules)
        step = "C4 fence" if marks_first and _is_transactional(scenario, driver) else "C5"
        yield f"{driver.token} C4: commits its mark {mark.state!r}", following.with_driver(index, step=step)
    else:
        ids = [name for name, _ in world.epochs] if rules.fences_all else names_of(driver.pieces, rules.piece_name)
        following = world.with_epochs(ids).with_driver(index, step="C5" if marks_first else "C4 mark")
        yield f"{driver.token} C4: fences the tasks of earlier drivers", following


def _read(scenario: Scenario, world: World, index: int) -> tuple[str, World]:
    """C5. The pieces, and where each begins."""
    driver = world.drivers[index]
    decision = driver.decision
    if decision is Decision.CONTINUE:
        names = names_of(driver.pieces, scenario.rules.piece_name)
        assert driver.seen is not None
        slots = world.slots_of(driver.seen.key)
        decision = scenario.rules.with_slots(decision, names, slots)
        if decision is not Decision.CONTINUE:
            return f"{driver.token} C5: a slot is missing", world.with_driver(index, decision=decision)
        positions = tuple(slots.get(name, 0) for name in names)
        following = _prepared(scenario, world, index, driver.pieces, positions)
        return f"{driver.token} C5: reads the slots {positions}", following
    if decision is Decision.CARRY_OVER:
        positions = _carried(world, driver)
        if positions is None:
            text = f"{driver.token} C5: what was delivered cannot be carried over, and its mark says so"
            following = world.with_driver(index, decision=Decision.READ_BACK)
            return text, following.with_mark(driver.claimant.mark(MarkState.OPENING, repeats=True), scenario.rules)
        text = f"{driver.token} C5: carries {positions} over from another plan"
        return text, _prepared(scenario, world, index, driver.pieces, positions)
    if decision is Decision.DELIVERED:
        return f"{driver.token} C5: only counts", _counting(scenario, world, index)
    if decision is Decision.READ_BACK and _is_proved(scenario, driver):
        text = f"{driver.token} C5: nothing can be read back, and the worker has proved the delivery"
        return text, _counting(scenario, world, index)
    pieces, duplicates, text = driver.pieces, 0, "begins"
    if decision is Decision.READ_BACK:
        delivered = [offset for run_id, offset in world.records if run_id == driver.claimant.run_id]
        delivered = delivered if scenario.rules.reads_back else []
        duplicates = len(delivered) - len(set(delivered))
        rest = (tuple(offset for offset in piece if offset not in delivered) for piece in pieces)
        pieces, text = tuple(piece for piece in rest if piece), f"reads {delivered} back from the target"
    starts = tuple(piece[0] for piece in pieces)
    return f"{driver.token} C5: {text}", _prepared(scenario, world, index, pieces, starts, duplicates)


def _counting(scenario: Scenario, world: World, index: int) -> World:
    driver = world.drivers[index]
    found = scenario.rules.repeats(driver.seen, driver.claimant, driver.decision, only_counts=True)
    return world.with_driver(index, step="writes", pieces=(), slots=(), repeats=found)


def _carried(world: World, driver: Driver) -> tuple[int, ...] | None:
    """Where the pieces stand, by what the package's own function makes of the slots and of the worker's proof."""
    mark, slots = driver.seen, list[SlotProgress]()
    assert mark is not None
    if not run_protocol.carries_proof(mark, driver.claimant):
        slots = [SlotProgress(name, position) for name, position in world.slots_of(mark.key).items()]
        if len(slots) < mark.pieces:
            return None
    is_same = run_protocol.is_same_delivery(driver.proved_key, driver.claimant.key)
    ranges = OffsetRanges(OffsetRange("orders", 0, offset, offset + 1) for offset in driver.proved if is_same)
    found = carried(pieces_of(driver.pieces), slots, ProvedDelivery(ranges.merge()))
    return None if found is None else tuple(stands.position for stands in found)


def _is_proved(scenario: Scenario, driver: Driver) -> bool:
    """Whether the worker knows what the target cannot tell."""
    if scenario.rules.reads_back or driver.claimant.is_cut:
        return False
    asked, permits = scenario.tries[driver.of_try], permits_loss(scenario, scenario.tries[driver.of_try])
    key = key_of(driver.claimant.run_id, asked.delivery, driver.incarnation, asked.plan, permits_loss=permits)
    return run_protocol.counts_for(driver.proved_key, key)


def _prepared(
    scenario: Scenario, world: World, index: int, pieces: Plan, slots: tuple[int, ...], duplicates: int = 0
) -> World:
    driver = world.drivers[index]
    delivery, permits = scenario.tries[driver.of_try].delivery, permits_loss(scenario, scenario.tries[driver.of_try])
    key = key_of(driver.claimant.run_id, delivery, driver.incarnation, pieces, permits_loss=permits)
    step = "C6 slots" if len(pieces) > 1 else "C6 mark"
    if delivery == AT_LEAST_ONCE:
        notes = scenario.tries[driver.of_try].may_mark and scenario.rules.notes_repeats
        step, slots = "C6 mark" if notes else "writes", ()
    none = (0,) * len(pieces)
    repeats = scenario.rules.repeats(driver.seen, driver.claimant, driver.decision)
    return world.with_driver(
        index, step=step, pieces=pieces, key=key, slots=slots, duplicates=duplicates, repeats=repeats, attempts=none
    )


def _commit(scenario: Scenario, world: World, index: int) -> Steps:
    """C6, in two transactions: all slots but the last; the last and the mark."""
    driver = world.drivers[index]
    if not _may_mark(scenario, world, driver):
        return
    if not _is_transactional(scenario, driver):
        again = driver.repeats or run_protocol.forgets(driver.seen, driver.claimant)
        mark = driver.claimant.mark(MarkState.OPENING, repeats=again)
        following = world.with_mark(mark, scenario.rules).with_driver(index, step="writes")
        yield f"{driver.token} C6: its mark says whether it repeats", following
        return
    positions = list(zip(names_of(driver.pieces, scenario.rules.piece_name), driver.slots, strict=True))
    if driver.step == "C6 slots":
        following = world.with_slots(driver.key, dict(positions[:-1]))
        yield f"{driver.token} C6: commits the first slots", following.with_driver(index, step="C6 mark")
        return
    claimant = replace(driver.claimant, key=driver.key)
    mark = claimant.mark(MarkState.OPEN, len(positions), pieces=len(positions), repeats=driver.repeats)
    following = world.with_slots(driver.key, dict(positions[-1:])).with_mark(mark, scenario.rules)
    yield f"{driver.token} C6: commits the last slot and the mark 'open'", following.with_driver(index, step="writes")


def _report(scenario: Scenario, world: World, index: int) -> Steps:
    driver, rules = world.drivers[index], scenario.rules
    if rules.checks_ids_at_end and driver.incarnation != world.incarnation:
        return
    asked = scenario.tries[driver.of_try]
    if driver.pieces and driver.claimant.leaders != _leaders(scenario, world) and not asked.permits_loss:
        run_id = driver.claimant.run_id
        known = {*world.records, *world.compacted_records}
        if any((run_id, at) not in known for at in offsets_of(asked.plan) if at not in world.compacted):
            if _may_mark(scenario, world, driver):
                mark = driver.claimant.mark(MarkState.OPENING, repeats=not rules.reads_back)
                yield f"{driver.token} finds a cut", world.with_mark(mark, rules).with_driver(index, step="dead")
            return
    # One that only counts looks at the target when it claims.
    seen = world.leaders if driver.pieces or not driver.claimant.leaders else int(driver.claimant.leaders) - 1
    ended = {"ended_at": world.incarnation, "ended_with": seen}
    following = world.with_driver(index, step="reported", slots=(), **ended)
    if rules.driver_finishes and world.mark is not None:
        following = following._replace(mark=replace(world.mark, state=MarkState.FINISHED.value))
    yield f"{driver.token} reports", following
