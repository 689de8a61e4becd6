"""docs/spec/commit-protocol.md as a model, searched state by state.

Two writers of one partition, a recoverer that may take any unfinished transaction at any moment (a lease says nothing
about whether its owner still lives), a staged file that vanishes, answers of the database that get lost, and a crash of
anybody between any two atomic steps. What is atomic in the model is atomic in the world: one database transaction, one
rename or completed upload, one deletion.

A crash of an owner needs no step of its own: for every reachable state the search also asks what recovery makes of it
if no owner ever moves again. The last test shows that the search can fail: it is given protocols with one mistake each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# The steps of whoever works on a transaction; owner and recoverer share all of them from CHECK on.
BEGIN, STAGE, RECORD, CHECK, RESERVE, PROMOTE, COMMIT, CLEAN, FINISH = range(9)
ABORT, GONE, UNDO, UNDONE, TAKEN, ASK, DONE = range(9, 16)
# The states of a transaction.
NONE, OPEN, RESERVED, COMMITTED, FINISHED, ABORTING, ABORTED = range(7)
# What the user was told.
NOTHING, SUCCESS, CONFLICT, FAILURE, UNKNOWN = range(5)

OLD = 1
"""The bit of the file that was there before; the others are the two files of one writer and the one of the other."""
FILES = ((2, 4), (8,))
ALL = (6, 8)


class Transaction(NamedTuple):
    """The row: its state, the version it read, the version it made, what it is to delete, whether it ever reserved."""

    state: int = NONE
    base: int = 0
    version: int = 0
    removals: int = 0
    reserved: bool = False


class Actor(NamedTuple):
    """Somebody at a step, with how far the step has come (files promoted, half files undone), and what was told."""

    step: int = BEGIN
    at: int = 0
    told: int = NOTHING


class World(NamedTuple):
    """What survives a crash; ``late`` files were staged after an undoing had begun."""

    staged: int = 0
    late: int = 0
    visible: int = OLD
    alive: int = OLD
    version: int = 0
    vanished: bool = False
    transactions: tuple[Transaction, Transaction] = (Transaction(), Transaction())


class Situation(NamedTuple):
    """The world and where everybody is in it; the recoverer may be idle, or has lost all that it knew."""

    world: World
    owners: tuple[Actor, Actor] = (Actor(), Actor())
    recoverer: tuple[int, Actor] | None = None


@dataclass(frozen=True)
class Protocol:
    """The protocol, with one mistake or none.

    Attributes:
        overwrites: Of each writer, whether it overwrites the partition; otherwise it appends.
        mistake: What this protocol does wrong.
    """

    overwrites: tuple[bool, bool]
    mistake: str = ""

    def conflicts(self) -> bool:
        """Whether the two writers may not both commit if neither saw the other."""
        return any(self.overwrites)

    def steps(self, world: World, number: int, actor: Actor) -> Iterator[tuple[World, Actor]]:
        """What one atomic step of ``actor`` on the transaction can lead to."""
        transaction = world.transactions[number]
        match actor.step:
            case 0:  # BEGIN
                yield put(world, number, state=OPEN, base=world.version), Actor(STAGE)
            case 1:  # STAGE: tasks write whatever has become of the transaction
                late = world.late if transaction.state == OPEN else world.late | ALL[number]
                yield world._replace(staged=world.staged | ALL[number], late=late), Actor(RECORD)
            case 2:  # RECORD
                yield world, Actor(CHECK if transaction.state == OPEN else TAKEN)
            case 3:  # CHECK
                missing = ALL[number] & ~world.staged
                following = PROMOTE if self.mistake == "promote before reserve" else RESERVE
                yield world, Actor(ABORT if missing else following, told=FAILURE if missing else NOTHING)
            case 4:
                yield from self._reserve(world, number)
            case 5:
                yield from self._promote(world, number, actor)
            case 6:
                yield from self._commit(world, number)
            case 7:
                yield self._clean(world, number)
            case 8:  # FINISH
                won = transaction.state == COMMITTED
                yield (put(world, number, state=FINISHED) if won else world), Actor(DONE, told=SUCCESS)
            case 9:  # ABORT
                allowed = transaction.state == OPEN or (
                    self.mistake == "abort without comparing" and transaction.state in (RESERVED, COMMITTED)
                )
                yield (
                    (put(world, number, state=ABORTING), Actor(UNDO, told=actor.told))
                    if allowed
                    else (world, Actor(TAKEN, told=actor.told))
                )
            case 10:  # GONE
                allowed = transaction.state == RESERVED or (
                    self.mistake == "undo without comparing" and transaction.state in (COMMITTED, FINISHED)
                )
                yield (
                    (put(world, number, state=ABORTING), Actor(UNDO, told=FAILURE))
                    if allowed
                    else (world, Actor(TAKEN))
                )
            case 11:
                yield self._undo(world, number, actor)
            case 12:  # UNDONE
                won = transaction.state == ABORTING
                told = actor.told or FAILURE
                yield (put(world, number, state=ABORTED) if won else world), Actor(DONE, told=told)
            case 13:  # TAKEN
                yield world, self._after_taken(transaction.state, actor)
            case 14:  # ASK
                yield (
                    world,
                    Actor(RESERVE) if transaction.state == OPEN else self._after_taken(transaction.state, actor),
                )
                yield world, Actor(DONE, told=UNKNOWN)

    def _reserve(self, world: World, number: int) -> Iterator[tuple[World, Actor]]:
        mine, other = world.transactions[number], world.transactions[1 - number]
        if mine.state != OPEN:
            yield world, Actor(TAKEN)
            return
        rival = other.state == RESERVED and self.mistake != "reserve forgets who is reserved"
        seen = other.version <= mine.base or self.mistake == "reserve forgets who has committed"
        later = other.state in (COMMITTED, FINISHED) and not seen
        if self.conflicts() and (rival or later):
            yield world, Actor(ABORT, told=CONFLICT)
            return
        after = put(world, number, state=RESERVED, reserved=True)
        yield after, Actor(COMMIT if self.mistake == "promote before reserve" else PROMOTE)
        if self.mistake == "a lost answer of reserve is a failure":
            yield after, Actor(DONE, told=FAILURE)
        elif number == 0:  # the answer, or the question, is lost; of one writer only, which keeps the search short
            yield after, Actor(ASK)
            yield world, Actor(ASK)

    def _promote(self, world: World, number: int, actor: Actor) -> Iterator[tuple[World, Actor]]:
        """Files in any order; ``at`` has the bits of those that are done."""
        early = self.mistake == "promote before reserve" and not world.transactions[number].reserved
        for bit in FILES[number]:
            if actor.at & bit:
                continue
            done = actor.at | bit
            following = Actor(PROMOTE, done) if done != ALL[number] else Actor(RESERVE if early else COMMIT)
            if world.staged & bit:
                yield world._replace(staged=world.staged & ~bit, visible=world.visible | bit), following
            else:
                yield world, following if world.visible & bit else Actor(GONE)

    def _commit(self, world: World, number: int) -> Iterator[tuple[World, Actor]]:
        mine = world.transactions[number]
        blind = self.mistake == "commit without comparing" and mine.state != COMMITTED
        if mine.state != RESERVED and not blind:
            yield world, Actor(TAKEN)
            return
        removals = world.alive if self.overwrites[number] else 0
        version = world.version + 1
        after = put(world, number, state=COMMITTED, version=version, removals=removals)
        after = after._replace(alive=world.alive & ~removals | ALL[number], version=version)
        yield after, Actor(FINISH if self.mistake == "finish before the clean-up" else CLEAN)
        if self.mistake == "a lost answer of commit is a failure":
            yield after, Actor(DONE, told=FAILURE)
        elif number == 0:
            yield after, Actor(ASK)
            yield world, Actor(ASK)

    def _clean(self, world: World, number: int) -> tuple[World, Actor]:
        left = world.transactions[number].removals & world.visible
        if not left:
            return world._replace(staged=world.staged & ~ALL[number]), Actor(FINISH)
        return world._replace(visible=world.visible & ~(left & -left)), Actor(CLEAN)

    def _undo(self, world: World, number: int, actor: Actor) -> tuple[World, Actor]:
        """Half a file a step: the source, then the target."""
        file, half = divmod(actor.at, 2)
        bit = FILES[number][file]
        if (half == 0) is (self.mistake != "undo deletes the target first"):
            after = world._replace(staged=world.staged & ~bit, late=world.late & ~bit)
        elif self.mistake == "undo forgets the targets":
            after = world
        else:
            after = world._replace(visible=world.visible & ~bit)
        more = actor.at + 1 < 2 * len(FILES[number])
        return after, Actor(UNDO if more else UNDONE, actor.at + 1 if more else 0, actor.told)

    def _after_taken(self, state: int, actor: Actor) -> Actor:
        """Where whoever finds a transaction in a state goes on."""
        if state == OPEN:
            return Actor(ABORT)
        if state == RESERVED:
            return Actor(CLEAN if self.mistake == "recovery cleans up before it commits" else PROMOTE)
        if state == COMMITTED:
            return Actor(CLEAN)
        if state == FINISHED:
            return Actor(DONE, told=SUCCESS)
        # ABORTED: a slow owner's tasks may have written after the recoverer had removed everything.
        return Actor(UNDO, told=actor.told or FAILURE)

    def successors(self, situation: Situation) -> Iterator[Situation]:
        """Every situation that one step of anybody leads to."""
        world, owners, recoverer = situation
        first, second = owners
        if first.step != DONE:
            for after, actor in self.steps(world, 0, first):
                yield Situation(after, (actor, second), recoverer)
        if second.step != DONE:
            for after, actor in self.steps(world, 1, second):
                yield Situation(after, (first, actor), recoverer)
        if recoverer is None:
            for number, transaction in enumerate(world.transactions):
                if transaction.state in (OPEN, RESERVED, COMMITTED, ABORTING):
                    yield Situation(world, owners, (number, Actor(TAKEN)))
        else:
            number, recovering = recoverer
            yield Situation(world, owners, None)  # it crashes
            for after, actor in self.steps(world, number, recovering):
                # A recoverer that has lost sight of the database starts again later.
                yield Situation(after, owners, None if actor.step in (DONE, ASK) else (number, actor))
        if not world.vanished and world.staged & 2:
            yield Situation(world._replace(staged=world.staged & ~2, vanished=True), owners, recoverer)

    def recovered(self, world: World) -> World:
        """The world after every owner has died here and recovery has run to its end."""
        for number in (0, 1):
            state = world.transactions[number].state
            if state in (NONE, FINISHED, ABORTED):
                continue
            actor = Actor(TAKEN)
            while actor.step != DONE:
                world, actor = next(self.steps(world, number, actor))
        return world


def put(world: World, number: int, **values: int) -> World:
    changed = world.transactions[number]._replace(**values)
    first, second = world.transactions
    return world._replace(transactions=(changed, second) if number == 0 else (first, changed))


def check_world(protocol: Protocol, world: World) -> None:
    """Promises 1, 2 and 4 as far as everybody sees them."""
    committed = [t for t in world.transactions if t.version]
    expected = OLD
    for transaction in sorted(committed, key=lambda t: t.version):
        number = world.transactions.index(transaction)
        expected = (0 if protocol.overwrites[number] else expected) | ALL[number]
    assert world.alive == expected, "readers of the index see something that is neither old nor new"
    assert world.alive & ~world.visible == 0, "the index names a file that is not there"
    for number, transaction in enumerate(world.transactions):
        assert transaction.reserved or not world.visible & ALL[number], "a file was visible before its write had won"
        if transaction.version:
            assert transaction.state in (COMMITTED, FINISHED), "a committed transaction was taken back"
    if protocol.conflicts() and len(committed) == 2:
        first, second = sorted(committed, key=lambda t: t.version)
        assert first.version <= second.base, "a write committed over one that it had not seen"


def check_told(world: World, recovered: World, owners: tuple[Actor, Actor]) -> None:
    """Promises 3 to 5 as far as users see them: what they were told holds, now and after recovery."""
    for owner, number in zip(owners, (0, 1), strict=True):
        told = owner.told if owner.step == DONE else NOTHING
        transaction = world.transactions[number]
        if told == SUCCESS:
            assert transaction.version, "success was told of a write that is not committed"
        if told in (CONFLICT, FAILURE):
            assert not transaction.version, "failure was told of a write that is committed"
            after = recovered.transactions[number].state
            assert after == ABORTED, "failure was told, and recovery committed the write"
        if told == CONFLICT:
            assert not transaction.reserved, "the race was lost after files had become visible"
        # What tasks write that outlive the recovery of their transaction is hidden, and vacuum's where the owner dies.
        left = recovered.staged & ALL[number]
        assert not (left if told else left & ~recovered.late), "a staged file was left"


def check_recovered(protocol: Protocol, world: World) -> None:
    """Promises 2 and 3 after recovery."""
    check_world(protocol, world)
    assert world.visible == world.alive, "the listing shows something other than the index"
    assert all(transaction.state in (NONE, FINISHED, ABORTED) for transaction in world.transactions)


def search(protocol: Protocol) -> tuple[int, set[tuple[int, int]]]:
    """The number of situations, and what the two users can be told; raises where a promise breaks."""
    start = Situation(World())
    seen, stack = {start}, [start]
    ends: set[tuple[int, int]] = set()
    recovered: dict[World, World] = {}
    while stack:
        situation = stack.pop()
        world, owners, _ = situation
        after_recovery = recovered.get(world)
        if after_recovery is None:
            check_world(protocol, world)
            after_recovery = recovered[world] = protocol.recovered(world)
            check_recovered(protocol, after_recovery)
        check_told(world, after_recovery, owners)
        if owners[0].step == DONE and owners[1].step == DONE:
            ends.add((owners[0].told, owners[1].told))
        for following in protocol.successors(situation):
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return len(seen), ends


@pytest.mark.parametrize(
    "overwrites",
    [(False, False), (False, True), (True, False), (True, True)],
    ids=["append and append", "append and overwrite", "overwrite and append", "overwrite and overwrite"],
)
def test_no_interleaving_breaks_a_promise(overwrites: tuple[bool, bool]) -> None:
    situations, ends = search(Protocol(overwrites))
    assert situations > 10_000, "the search has not gone far"
    assert (SUCCESS, SUCCESS) in ends
    assert ((SUCCESS, CONFLICT) in ends) is any(overwrites)
    assert (FAILURE, SUCCESS) in ends
    assert {(UNKNOWN, SUCCESS), (UNKNOWN, CONFLICT)} & ends


@pytest.mark.parametrize(
    ("mistake", "broken"),
    [
        ("promote before reserve", "a file was visible before its write had won"),
        ("undo deletes the target first", "the listing shows something other than the index"),
        ("undo forgets the targets", "the listing shows something other than the index"),
        ("commit without comparing", "neither old nor new|is not there|was taken back|committed over"),
        ("abort without comparing", "was taken back|is not there"),
        ("undo without comparing", "was taken back|is not there"),
        ("reserve forgets who is reserved", "a write committed over one that it had not seen"),
        ("reserve forgets who has committed", "a write committed over one that it had not seen"),
        ("finish before the clean-up", "the listing shows something other than the index"),
        ("a lost answer of reserve is a failure", "failure was told"),
        ("a lost answer of commit is a failure", "failure was told of a write that is committed"),
    ],
)
def test_the_search_finds_a_protocol_with_a_mistake(mistake: str, broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        search(Protocol((True, True), mistake))
