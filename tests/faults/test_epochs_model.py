"""The undoing of streaming epochs (``docs/spec/commit-protocol.md``, undo) as a model, searched state by state.

The model has two epochs of a query, a file that waits for its partition and is due with both, a recoverer of either
epoch at any moment, and a store that may refuse ``promote``. The older epoch may be a slow driver whose lease is over.
A step is atomic in the model if it is atomic in reality: one database transaction, or one rename while the lock of the
transaction's row is held. The last test searches protocols with one mistake each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN, RESERVED, COMMITTED, ABORTING, ABORTED = range(5)


class Step:
    """The steps of an owner or a recoverer at an epoch, named as in ``metastore/transactions/steps``.

    ``TAKE_BACK`` makes the epoch ``aborting``. ``HIDE`` and ``END_UNDO`` are the end of ``undo``.
    """

    CHECK, RESERVE, PROMOTE, PROMOTE_LATE, APPLY, TAKE_BACK, UNDO, HIDE, END_UNDO, DONE = range(10)


class World(NamedTuple):
    """What survives a crash: whether the file has its final name, whether it waits, how often it was committed.

    Attributes:
        due: For each epoch, whether it has found the file to be due.
    """

    visible: bool = False
    waits: bool = True
    commits: int = 0
    states: tuple[int, int] = (OPEN, OPEN)
    due: tuple[bool, bool] = (False, False)


class Situation(NamedTuple):
    """The world, the step of each owner, and the transaction and step of a recoverer."""

    world: World
    owners: tuple[int, int] = (Step.CHECK, Step.CHECK)
    recoverer: tuple[int, int] | None = None


def pair(values: tuple[int, int], number: int, value: int) -> tuple[int, int]:
    return (value, values[1]) if number == 0 else (values[0], value)


def moved(world: World, number: int, state: int) -> World:
    return world._replace(states=pair(world.states, number, state))


class Epochs:
    """The protocol, with at most one mistake."""

    def __init__(self, mistake: str = "") -> None:
        self.mistake = mistake

    def steps(self, world: World, number: int, step: int) -> Iterator[tuple[World, int]]:
        state = world.states[number]
        match step:
            case Step.CHECK:
                due = (world.waits, world.due[1]) if number == 0 else (world.due[0], world.waits)
                yield world._replace(due=due), Step.RESERVE
            case Step.RESERVE:
                yield self._reserve(world, number), Step.PROMOTE
            case Step.PROMOTE:
                if state != RESERVED:
                    yield world, Step.DONE
                elif world.due[number] and world.waits:
                    yield world, Step.TAKE_BACK
                    yield (
                        (world, Step.PROMOTE_LATE)
                        if self.mistake == "promoted without the row"
                        else self._promoted(world, number)
                    )
                else:
                    yield world, Step.APPLY
            case Step.PROMOTE_LATE:
                # Only in a protocol with a mistake: the state was read before.
                yield world._replace(visible=True), Step.APPLY
            case Step.APPLY:
                yield self._apply(world, number), Step.DONE
            case Step.TAKE_BACK:
                yield (moved(world, number, ABORTING), Step.UNDO) if state == RESERVED else (world, Step.DONE)
            case Step.UNDO:
                if state != ABORTING:
                    yield world, Step.DONE
                elif not (world.due[number] and world.waits) or self.mistake == "nothing is hidden":
                    yield world, Step.END_UNDO
                else:
                    yield world, Step.HIDE
            case Step.HIDE:
                holds = state == ABORTING or self.mistake == "hidden without the row"
                yield world._replace(visible=world.visible and not holds), Step.END_UNDO
            case Step.END_UNDO:
                yield moved(world, number, ABORTED) if state == ABORTING else world, Step.DONE

    def _reserve(self, world: World, number: int) -> World:
        other = world.states[1 - number]
        if world.states[number] != OPEN:
            return world
        undoes = other == ABORTING and world.due[1 - number] and self.mistake != "no epoch waits for an undoing"
        duplicate = number == 0 and other == COMMITTED
        return moved(world, number, ABORTED if other == RESERVED or undoes or duplicate else RESERVED)

    def _promoted(self, world: World, number: int) -> tuple[World, int]:
        return (world._replace(visible=True), Step.APPLY) if world.states[number] == RESERVED else (world, Step.DONE)

    def _apply(self, world: World, number: int) -> World:
        if world.states[number] != RESERVED:
            return world
        taken = world.due[number] and world.waits
        return moved(world, number, COMMITTED)._replace(
            waits=world.waits and not taken, commits=world.commits + int(taken)
        )

    def recovery(self, world: World, number: int) -> list[int]:
        """The steps at which a recoverer may resume a transaction."""
        return {OPEN: [], RESERVED: [Step.PROMOTE, Step.TAKE_BACK], ABORTING: [Step.UNDO]}.get(world.states[number], [])

    def successors(self, situation: Situation) -> Iterator[Situation]:
        world, owners, recoverer = situation
        for number in (0, 1):
            for after, step in self.steps(world, number, owners[number]) if owners[number] != Step.DONE else ():
                yield Situation(after, pair(owners, number, step), recoverer)
            if recoverer is None:
                for step in self.recovery(world, number):
                    yield Situation(world, owners, (number, step))
        if recoverer is not None:
            yield Situation(world, owners)  # The recoverer crashes.
            for after, step in self.steps(world, *recoverer):
                yield Situation(after, owners, None if step == Step.DONE else (recoverer[0], step))


def check(world: World) -> None:
    assert world.commits == int(not world.waits), "the file is committed once"
    assert world.visible or world.waits, "a committed file is there"
    if not {RESERVED, ABORTING} & {*world.states}:
        assert world.visible is not world.waits, "engines that list directories see committed files only"


def search(epochs: Epochs) -> set[Situation]:
    """Return every reachable situation, and check each world."""
    seen = {Situation(World())}
    left = list(seen)
    while left:
        for found in epochs.successors(left.pop()):
            if found not in seen:
                check(found.world)
                seen.add(found)
                left.append(found)
    return seen


def test_file_of_undone_epoch_waits_again_or_is_committed() -> None:
    seen = search(Epochs())
    worlds = {situation.world for situation in seen}
    assert {(w.visible, w.waits) for w in worlds if not {RESERVED, ABORTING} & {*w.states}} == {
        (False, True),
        (True, False),
    }
    assert any(w.states == (ABORTED, COMMITTED) and w.commits for w in worlds), (
        "the next epoch commits a file whose epoch was undone"
    )
    assert any(w.states[0] == ABORTED and w.states[1] == RESERVED and w.visible for w in worlds)


@pytest.mark.parametrize(
    "mistake",
    ["promoted without the row", "hidden without the row", "no epoch waits for an undoing", "nothing is hidden"],
)
def test_search_finds_mistake(mistake: str) -> None:
    with pytest.raises(AssertionError):
        search(Epochs(mistake))
