"""What had waited waits again (``docs/spec/commit-protocol.md``) as a model, searched state by state.

Two epochs of a query, the older of which may be a driver that everybody takes for dead, a file that waits for its
partition and is due with both, a recoverer of either at any moment, and a store that may refuse at the promotion. What
is atomic here is atomic in the world: one database transaction, or one rename while the transaction's row is held. The
last test gives the search protocols with one mistake each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN, RESERVED, COMMITTED, ABORTING, ABORTED = range(5)
CHECK, RESERVE, LOOK, SHOW, COMMIT, GONE, FIND, HIDE, END, DONE = range(10)


class World(NamedTuple):
    """What survives a crash: whether the file has its final name, whether it waits, how often it was committed.

    Attributes:
        due: Of each epoch whether it has found the file to be due.
    """

    visible: bool = False
    waits: bool = True
    commits: int = 0
    states: tuple[int, int] = (OPEN, OPEN)
    due: tuple[bool, bool] = (False, False)


class Situation(NamedTuple):
    """The world, the step at which each owner is, and the transaction and step of a recoverer."""

    world: World
    owners: tuple[int, int] = (CHECK, CHECK)
    recoverer: tuple[int, int] | None = None


def pair(values: tuple[int, int], number: int, value: int) -> tuple[int, int]:
    return (value, values[1]) if number == 0 else (values[0], value)


def moved(world: World, number: int, state: int) -> World:
    return world._replace(states=pair(world.states, number, state))


class Epochs:
    """The protocol, with one mistake or none."""

    def __init__(self, mistake: str = "") -> None:
        self.mistake = mistake

    def steps(self, world: World, number: int, step: int) -> Iterator[tuple[World, int]]:
        state = world.states[number]
        match step:
            case 0:  # CHECK
                due = (world.waits, world.due[1]) if number == 0 else (world.due[0], world.waits)
                yield world._replace(due=due), RESERVE
            case 1:
                yield self._reserve(world, number), LOOK
            case 2:  # LOOK: what the promotion of an epoch goes by
                if state != RESERVED:
                    yield world, DONE
                elif world.due[number] and world.waits:
                    yield world, GONE
                    yield (world, SHOW) if self.mistake == "shown without the row" else self._shown(world, number)
                else:
                    yield world, COMMIT
            case 3:  # SHOW, of a protocol that has asked before
                yield world._replace(visible=True), COMMIT
            case 4:
                yield self._commit(world, number), DONE
            case 5:  # GONE
                yield (moved(world, number, ABORTING), FIND) if state == RESERVED else (world, DONE)
            case 6:  # FIND: what the undoing is to hide
                if state != ABORTING:
                    yield world, DONE
                elif not (world.due[number] and world.waits) or self.mistake == "nothing is hidden":
                    yield world, END
                else:
                    yield world, HIDE
            case 7:  # HIDE
                holds = state == ABORTING or self.mistake == "hidden without the row"
                yield world._replace(visible=world.visible and not holds), END
            case 8:  # END
                yield moved(world, number, ABORTED) if state == ABORTING else world, DONE

    def _reserve(self, world: World, number: int) -> World:
        other = world.states[1 - number]
        if world.states[number] != OPEN:
            return world
        undoes = other == ABORTING and world.due[1 - number] and self.mistake != "nobody waits for an undoing"
        duplicate = number == 0 and other == COMMITTED
        return moved(world, number, ABORTED if other == RESERVED or undoes or duplicate else RESERVED)

    def _shown(self, world: World, number: int) -> tuple[World, int]:
        return (world._replace(visible=True), COMMIT) if world.states[number] == RESERVED else (world, DONE)

    def _commit(self, world: World, number: int) -> World:
        if world.states[number] != RESERVED:
            return world
        taken = world.due[number] and world.waits
        return moved(world, number, COMMITTED)._replace(
            waits=world.waits and not taken, commits=world.commits + int(taken)
        )

    def recovery(self, world: World, number: int) -> list[int]:
        """The steps at which a recoverer may take a transaction up."""
        return {OPEN: [], RESERVED: [LOOK, GONE], ABORTING: [FIND]}.get(world.states[number], [])

    def successors(self, situation: Situation) -> Iterator[Situation]:
        world, owners, recoverer = situation
        for number in (0, 1):
            for after, step in self.steps(world, number, owners[number]) if owners[number] != DONE else ():
                yield Situation(after, pair(owners, number, step), recoverer)
            if recoverer is None:
                for step in self.recovery(world, number):
                    yield Situation(world, owners, (number, step))
        if recoverer is not None:
            yield Situation(world, owners)  # it crashes
            for after, step in self.steps(world, *recoverer):
                yield Situation(after, owners, None if step == DONE else (recoverer[0], step))


def check(world: World) -> None:
    assert world.commits == int(not world.waits), "the file is committed once"
    assert world.visible or world.waits, "what was committed is there"
    if not {RESERVED, ABORTING} & {*world.states}:
        assert world.visible is not world.waits, "engines that list directories see what is committed, and no more"


def search(epochs: Epochs) -> set[Situation]:
    """Every situation that can be reached, each world checked."""
    seen = {Situation(World())}
    left = list(seen)
    while left:
        for found in epochs.successors(left.pop()):
            if found not in seen:
                check(found.world)
                seen.add(found)
                left.append(found)
    return seen


def test_what_had_waited_waits_again_or_is_committed() -> None:
    seen = search(Epochs())
    worlds = {situation.world for situation in seen}
    assert {(w.visible, w.waits) for w in worlds if not {RESERVED, ABORTING} & {*w.states}} == {
        (False, True),
        (True, False),
    }
    assert any(w.states == (ABORTED, COMMITTED) and w.commits for w in worlds), "the next epoch takes what was undone"
    assert any(w.states[0] == ABORTED and w.states[1] == RESERVED and w.visible for w in worlds)


@pytest.mark.parametrize(
    "mistake",
    ["shown without the row", "hidden without the row", "nobody waits for an undoing", "nothing is hidden"],
)
def test_the_search_finds_a_mistake(mistake: str) -> None:
    with pytest.raises(AssertionError):
        search(Epochs(mistake))
