"""A model of the commit protocol (``docs/spec/commit-protocol.md``) that is searched state by state.

Two writers change one partition, and a recoverer may take any unfinished transaction at any moment: the model has no
clock, since an expired lease does not prove that the owner is dead. A staged file may vanish, answers of the database
may be lost, and every process may crash between two atomic steps. A step is atomic in the model if it is atomic in
reality: one database transaction, one rename or completed upload, one deletion.

One guest at a time, which keeps the search short, runs beside them: a repair, a vacuum, a Hive engine that writes a
file, then another one of the same name, and deletes the files that were there, a store that refuses permanently, or a
power loss.

A crash of an owner needs no step: for each reachable state the search also checks the result of recovery if no owner
ever moves again. The tests with a ``mistake`` show that the search can fail: each gives it a protocol with one mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


class Step:
    """The steps of an owner or a recoverer at a transaction, named as in ``metastore/transactions/steps``.

    ``RECORD`` is the end of ``stage``. ``SYNC_PROMOTED`` and ``REMOVE_STAGING`` are the end of ``promote``,
    ``SYNC_REMOVED`` and ``FINISH`` that of ``clean``, ``END_UNDO`` that of ``undo``. ``ABORT`` and ``TAKE_BACK`` make a
    transaction ``aborting``. ``RESUME`` goes on from the state in the index, ``ASK`` after a lost answer. There is no
    ``publish``: the model has no metastore.
    """

    BEGIN, STAGE, RECORD, CHECK, RESERVE, PROMOTE, SYNC_PROMOTED, REMOVE_STAGING, APPLY = range(9)
    CLEAN, SYNC_REMOVED, FINISH, ABORT, TAKE_BACK, UNDO, END_UNDO, RESUME, ASK, DONE = range(9, 19)


# The states of a transaction.
NONE, OPEN, RESERVED, COMMITTED, FINISHED, ABORTING, ABORTED = range(7)
# The result that the user has seen.
NOTHING, SUCCESS, CONFLICT, FAILURE, UNKNOWN = range(5)

OLD = 1
"""The bit of the file that was there before; the others are the two files of one writer and the one of the other."""
FILES = ((2, 4), (8,))
ALL = (6, 8)
HIVE, HIVE_AGAIN = 16, 32
"""A foreign file, and the one that has its name after it."""
FOREIGN = HIVE | HIVE_AGAIN


class Transaction(NamedTuple):
    """The row: its state, base version, own version, files to delete, and whether it ever passed ``reserve``.

    ``unknown`` are foreign files that ``check`` found and an overwrite deletes too. ``fixed`` are the files that the
    index had at ``reserve``, if the write replaces them.
    """

    state: int = NONE
    base: int = 0
    version: int = 0
    removals: int = 0
    reserved: bool = False
    unknown: int = 0
    fixed: int = 0


class Guest(NamedTuple):
    """The progress of a repair or a vacuum, with its listing of the files and what it read of the index."""

    step: int = 0
    version: int = 0
    alive: int = 0
    pending: int = 0
    seen: int = 0
    uncommitted: int = 0


class Actor(NamedTuple):
    """A process at a step, with the progress (promoted files, half files undone) and the result that its user saw."""

    step: int = Step.BEGIN
    at: int = 0
    reported: int = NOTHING


class World(NamedTuple):
    """What survives a crash. ``late`` files were staged after ``undo`` had begun.

    A power loss may reverse ``volatile`` renames, and bring back ``ghosts``, which are deleted files. ``written`` are
    the foreign files that the Hive engine has not replaced or deleted itself, ``repaired`` is the version of a repair.
    ``unsettled`` are the files that the overwrite of everything by the writer ``floor`` has ended for readers, and
    whose rows have no end yet.
    """

    staged: int = 0
    late: int = 0
    visible: int = OLD
    alive: int = OLD
    version: int = 0
    vanished: bool = False
    volatile: int = 0
    ghosts: int = 0
    written: int = 0
    deleted: int = 0
    repaired: int = 0
    unsettled: int = 0
    floor: int = 0
    transactions: tuple[Transaction, Transaction] = (Transaction(), Transaction())


class Situation(NamedTuple):
    """The world and the step of each process. The recoverer is None while it is idle, or after it has crashed."""

    world: World
    owners: tuple[Actor, Actor] = (Actor(), Actor())
    recoverer: tuple[int, Actor] | None = None
    guest: Guest = Guest()


@dataclass(frozen=True)
class Protocol:
    """The protocol, with at most one mistake.

    Attributes:
        overwrites: For each writer, whether it overwrites the partition; otherwise it appends.
        mistake: The mistake, or an empty text.
        guest: Other processes and failures, one or two of ``repair``, ``vacuum``, ``hive``, ``refusal``, ``power``.
        settles: Whether overwrites are of so much that its rows are ended after the commit, one a step.
    """

    overwrites: tuple[bool, bool]
    mistake: str = ""
    guest: str = ""
    settles: bool = False

    def conflicts(self) -> bool:
        """Whether at most one of the writers may commit if neither has read the other's version."""
        return any(self.overwrites)

    def steps(self, world: World, number: int, actor: Actor) -> Iterator[tuple[World, Actor]]:
        """Every result of one atomic step of ``actor`` at the transaction."""
        transaction = world.transactions[number]
        match actor.step:
            case Step.BEGIN:
                yield put(world, number, state=OPEN, base=world.version), Actor(Step.STAGE)
            case Step.STAGE:
                # Tasks write even if their transaction was undone.
                late = world.late if transaction.state == OPEN else world.late | ALL[number]
                yield world._replace(staged=world.staged | ALL[number], late=late), Actor(Step.RECORD)
            case Step.RECORD:
                yield world, Actor(Step.CHECK if transaction.state == OPEN else Step.RESUME)
            case Step.CHECK:
                missing = ALL[number] & ~world.staged
                following = Step.PROMOTE if self.mistake == "promote before reserve" else Step.RESERVE
                # An overwrite records the foreign files that are there now.
                found = world.visible & FOREIGN & ~world.alive if self.overwrites[number] else 0
                yield world, Actor(Step.ABORT, reported=FAILURE) if missing else Actor(following, found)
            case Step.RESERVE:
                yield from self._reserve(world, number, actor.at)
            case Step.PROMOTE:
                yield from self._promote(world, number, actor)
            case Step.APPLY:
                yield from self._apply(world, number, is_clean=bool(actor.at))
            case Step.CLEAN:
                yield self._clean(world, number)
            case Step.FINISH:
                won = transaction.state == COMMITTED
                yield (put(world, number, state=FINISHED) if won else world), Actor(Step.DONE, reported=SUCCESS)
            case Step.ABORT:
                allowed = transaction.state == OPEN or (
                    self.mistake == "abort does not compare the state" and transaction.state in (RESERVED, COMMITTED)
                )
                yield (
                    (put(world, number, state=ABORTING), Actor(Step.UNDO, reported=actor.reported))
                    if allowed
                    else (world, Actor(Step.RESUME, reported=actor.reported))
                )
            case Step.TAKE_BACK:
                allowed = transaction.state == RESERVED or (
                    self.mistake == "take back does not compare the state"
                    and transaction.state in (COMMITTED, FINISHED)
                )
                yield (
                    (put(world, number, state=ABORTING), Actor(Step.UNDO, reported=FAILURE))
                    if allowed
                    else (world, Actor(Step.RESUME))
                )
            case Step.UNDO:
                yield self._undo(world, number, actor)
            case Step.SYNC_PROMOTED:
                yield world._replace(volatile=world.volatile & ~ALL[number]), self._promoted(number)
            case Step.REMOVE_STAGING:
                # A write that only adds files removes its staging directory before ``apply``. This may fail.
                early = self.mistake == "staging is removed before promote"
                yield (
                    world._replace(staged=world.staged & ~ALL[number]),
                    Actor(Step.PROMOTE if early else Step.APPLY, not early),
                )
                yield world, Actor(Step.APPLY)
            case Step.SYNC_REMOVED:
                # From here on a power loss brings no deleted file back.
                after = Step.RESUME if self.mistake == "clean finishes before it deletes" else Step.FINISH
                yield world._replace(ghosts=world.ghosts & ~transaction.removals), Actor(after)
            case Step.END_UNDO:
                if "power" in self.guest and self.mistake != "undo does not sync":
                    world = world._replace(ghosts=world.ghosts & ~ALL[number])
                won = transaction.state == ABORTING
                reported = actor.reported or FAILURE
                yield (put(world, number, state=ABORTED) if won else world), Actor(Step.DONE, reported=reported)
            case Step.RESUME:
                yield world, self._resumed(transaction.state, actor)
            case Step.ASK:
                again = Actor(Step.RESERVE, actor.at)
                yield world, again if transaction.state == OPEN else self._resumed(transaction.state, actor)
                yield world, Actor(Step.DONE, reported=UNKNOWN)

    def _reserve(self, world: World, number: int, found: int) -> Iterator[tuple[World, Actor]]:
        mine, other = world.transactions[number], world.transactions[1 - number]
        if mine.state != OPEN:
            yield world, Actor(Step.RESUME)
            return
        if self._must_settle(world):
            yield self.settled(world), Actor(Step.RESERVE, found)
            return
        rival = other.state == RESERVED and self.mistake != "reserve ignores reserved transactions"
        seen = other.version <= mine.base or self.mistake == "reserve ignores committed transactions"
        later = other.state in (COMMITTED, FINISHED) and not seen
        repaired = self.overwrites[number] and world.repaired > mine.base
        if repaired or (self.conflicts() and (rival or later)):
            yield world, Actor(Step.ABORT, reported=CONFLICT)
            return
        fixed = world.alive if self.overwrites[number] else 0
        after = put(world, number, state=RESERVED, reserved=True, unknown=found, fixed=fixed)
        yield after, Actor(self._after_reserve(number))
        if self.mistake == "a lost answer of reserve is a failure":
            yield after, Actor(Step.DONE, reported=FAILURE)
        elif number == 0 and not self.guest:
            # The answer or the request is lost. Other searches leave this out to stay short.
            yield after, Actor(Step.ASK, found)
            yield world, Actor(Step.ASK, found)

    def _after_reserve(self, number: int) -> int:
        if self.mistake == "staging is removed before promote" and not self.overwrites[number]:
            return Step.REMOVE_STAGING
        return Step.APPLY if self.mistake == "promote before reserve" else Step.PROMOTE

    def _promote(self, world: World, number: int, actor: Actor) -> Iterator[tuple[World, Actor]]:
        """Promote one more file, in any order; ``at`` has the bits of the promoted ones."""
        early = self.mistake == "promote before reserve" and not world.transactions[number].reserved
        for bit in FILES[number]:
            if actor.at & bit:
                continue
            done = actor.at | bit
            last = (
                Actor(Step.RESERVE) if early else Actor(Step.SYNC_PROMOTED) if self._syncs() else self._promoted(number)
            )
            following = Actor(Step.PROMOTE, done) if done != ALL[number] else last
            if "refusal" in self.guest:
                yield world, Actor(Step.TAKE_BACK)
            if world.staged & bit:
                volatile = world.volatile | bit if "power" in self.guest else 0
                moved = world._replace(staged=world.staged & ~bit, visible=world.visible | bit, volatile=volatile)
                yield moved, following
            else:
                yield world, following if world.visible & bit else Actor(Step.TAKE_BACK)

    def _promoted(self, number: int) -> Actor:
        tidies = not self.overwrites[number] or self.mistake == "apply finishes a replacing write"
        return Actor(
            Step.REMOVE_STAGING if tidies and self.mistake != "staging is removed before promote" else Step.APPLY
        )

    def _syncs(self) -> bool:
        return "power" in self.guest and self.mistake != "promote does not sync"

    def _apply(self, world: World, number: int, *, is_clean: bool) -> Iterator[tuple[World, Actor]]:
        mine = world.transactions[number]
        blind = self.mistake == "apply does not compare the state" and mine.state != COMMITTED
        if mine.state != RESERVED and not blind:
            yield world, Actor(Step.RESUME)
            return
        if self._must_settle(world):
            yield self.settled(world), Actor(Step.APPLY, int(is_clean))
            return
        # Rows without an end: all of them are alive, where nothing is unsettled.
        rows = world.alive | world.unsettled
        # Files that a repair has registered since ``reserve`` are carried over.
        checked = rows if self.mistake == "apply ends rows that came after reserve" else mine.fixed | mine.unknown
        replaced = rows & checked if self.overwrites[number] else 0
        unsettled = replaced if self.overwrites[number] and self.settles else world.unsettled
        removals = (0 if self.settles else replaced) | mine.unknown if self.overwrites[number] else 0
        version = world.version + 1
        # Without a staging directory and replaced files ``clean`` has nothing to do.
        ended = is_clean and (not removals or self.mistake == "apply finishes a replacing write")
        after = put(world, number, state=FINISHED if ended else COMMITTED, version=version, removals=removals)
        after = after._replace(alive=rows & ~replaced | ALL[number], version=version)
        if self.settles and self.overwrites[number]:
            after = after._replace(unsettled=unsettled, floor=number)
        early = self.mistake == "clean finishes before it deletes"
        yield after, Actor(Step.DONE, reported=SUCCESS) if ended else Actor(Step.FINISH if early else Step.CLEAN)
        if self.mistake == "a lost answer of apply is a failure":
            yield after, Actor(Step.DONE, reported=FAILURE)
        elif number == 0 and not self.guest:
            yield after, Actor(Step.ASK)
            yield world, Actor(Step.ASK)

    def _must_settle(self, world: World) -> bool:
        """Whether a process that locks the table must settle first."""
        return bool(world.unsettled) and self.mistake != "a writer does not settle first"

    def settled(self, world: World) -> World:
        """The world with one more row that says of its end: its file is to be deleted by who has ended it."""
        bit = world.unsettled & -world.unsettled
        removals = world.transactions[world.floor].removals | bit
        return put(world._replace(unsettled=world.unsettled & ~bit), world.floor, removals=removals)

    def _clean(self, world: World, number: int) -> tuple[World, Actor]:
        mine = world.unsettled and world.floor == number
        if mine and self.mistake != "the clean-up does not settle first":
            return self.settled(world), Actor(Step.CLEAN)
        removals = world.transactions[number].removals
        if self.mistake == "clean compares names only" and removals & FOREIGN:
            removals |= FOREIGN
        left = removals & world.visible
        if not left:
            syncs = "power" in self.guest and self.mistake != "clean does not sync"
            return world._replace(staged=world.staged & ~ALL[number]), Actor(
                Step.SYNC_REMOVED if syncs else Step.FINISH
            )
        return self._deleted(world, left & -left), Actor(Step.CLEAN)

    def _deleted(self, world: World, bit: int) -> World:
        ghosts = world.ghosts | (bit & world.visible) if "power" in self.guest else 0
        return world._replace(visible=world.visible & ~bit, ghosts=ghosts, volatile=world.volatile & ~bit)

    def _undo(self, world: World, number: int, actor: Actor) -> tuple[World, Actor]:
        """Undo half a file: the source, then the target."""
        file, half = divmod(actor.at, 2)
        bit = FILES[number][file]
        if (half == 0) is (self.mistake != "undo deletes the target first"):
            after = world._replace(staged=world.staged & ~bit, late=world.late & ~bit)
        elif self.mistake == "undo forgets the targets":
            after = world
        else:
            after = self._deleted(world, bit)
        more = actor.at + 1 < 2 * len(FILES[number])
        return after, Actor(Step.UNDO if more else Step.END_UNDO, actor.at + 1 if more else 0, actor.reported)

    def _resumed(self, state: int, actor: Actor) -> Actor:
        """The step at which a process resumes a transaction that it finds in a state."""
        if state == OPEN:
            return Actor(Step.ABORT)
        if state == RESERVED:
            return Actor(Step.PROMOTE)
        if state == COMMITTED:
            return Actor(Step.CLEAN)
        if state == FINISHED:
            return Actor(Step.DONE, reported=SUCCESS)
        # Tasks of a slow owner may have written after the recoverer had removed everything, so ``undo`` runs again.
        return Actor(Step.UNDO, reported=actor.reported or FAILURE)

    def successors(self, situation: Situation) -> Iterator[Situation]:
        """Every situation that one step of a process leads to."""
        world, owners, recoverer, guest = situation
        first, second = owners
        if first.step != Step.DONE:
            for after, actor in self.steps(world, 0, first):
                yield Situation(after, (actor, second), recoverer, guest)
        if second.step != Step.DONE:
            for after, actor in self.steps(world, 1, second):
                yield Situation(after, (first, actor), recoverer, guest)
        if recoverer is None:
            for number, transaction in enumerate(world.transactions):
                if self.guest in ("repair", "vacuum") and number == 0:
                    # Recovering this writer too would not change these guests, only lengthen the search.
                    continue
                if transaction.state in (OPEN, RESERVED, COMMITTED, ABORTING):
                    yield Situation(world, owners, (number, Actor(Step.RESUME)), guest)
        else:
            number, recovering = recoverer
            if not self.guest:
                yield Situation(world, owners, None, guest)  # The recoverer crashes.
            for after, actor in self.steps(world, number, recovering):
                # A recoverer that gets no answer of the database starts again later.
                yield Situation(after, owners, None if actor.step in (Step.DONE, Step.ASK) else (number, actor), guest)
        if not self.guest and not world.vanished and world.staged & 2:
            yield Situation(world._replace(staged=world.staged & ~2, vanished=True), owners, recoverer)
        if "hive" in self.guest:
            for after in self._foreign(world):
                yield Situation(after, owners, recoverer, guest)
        for name, work in (("repair", self.repair), ("vacuum", self.vacuum)):
            if name in self.guest:
                after, seen = work(world, guest)
                if (after, seen) != (world, guest):
                    yield Situation(after, owners, recoverer, seen)

    def _foreign(self, world: World) -> Iterator[World]:
        """A Hive engine writes a file, and later another one of the same name in its place."""
        if not world.written:
            yield world._replace(visible=world.visible | HIVE, written=HIVE)
        elif world.written == HIVE:
            yield world._replace(visible=world.visible & ~HIVE | HIVE_AGAIN, written=HIVE_AGAIN)

    def repair(self, world: World, guest: Guest) -> tuple[World, Guest]:
        """The next step of a repair, which registers its listing in the index."""
        ids = sum(
            ALL[number]
            for number, transaction in enumerate(world.transactions)
            if not transaction.version or transaction.version > guest.version
        )
        careless = self.mistake == "repair does not settle first"
        if world.unsettled and (guest.step == 3 or (guest.step == 0 and not careless)):
            return self.settled(world), guest
        match guest.step:
            case 0:
                pending = self._pending(world)
                uncommitted = sum(ALL[n] for n, t in enumerate(world.transactions) if t.state != NONE and not t.version)
                return world, Guest(1, world.version, world.alive, pending, uncommitted=uncommitted)
            case 1:
                return world, guest._replace(step=2, seen=world.visible)
            case 2:
                asked = guest.uncommitted if self.mistake == "repair asks for writers before it lists" else ids
                pending = guest.pending
                if self.mistake == "repair asks for removals after it lists":
                    pending = self._pending(world)
                return world, guest._replace(step=3, uncommitted=asked, pending=pending)
            case 3:
                known = guest.seen & ~guest.uncommitted & ~guest.pending
                fenced = world.version == guest.version or self.mistake == "repair does not compare the version"
                after = world
                if fenced and known != world.alive:
                    version = world.version + 1
                    after = world._replace(alive=known, version=version, repaired=version)
                return after, Guest(4)
            case _:
                return world, guest

    def _pending(self, world: World) -> int:
        """The files that committed transactions will delete."""
        pending = 0
        for transaction in world.transactions:
            if transaction.state == COMMITTED:
                pending |= transaction.removals
        return pending

    def vacuum(self, world: World, guest: Guest) -> tuple[World, Guest]:
        """The next step of a vacuum without retention: it deletes files that writes have replaced or left."""
        if world.unsettled and guest.step == 1:
            return self.settled(world), guest
        match guest.step:
            case 0:
                return world, Guest(1, seen=world.visible | world.staged)
            case 1:
                ended = left = 0
                for number, transaction in enumerate(world.transactions):
                    if transaction.version:
                        ended |= transaction.removals & ~world.alive
                    if transaction.state == ABORTED or (
                        self.mistake == "vacuum deletes files of uncommitted writes" and not transaction.version
                    ):
                        left |= ALL[number]
                if self.mistake == "vacuum compares times of the store's clock" and ended & FOREIGN:
                    # By the store's clock the newer file seems to be older than the overwrite.
                    ended |= FOREIGN
                return world, Guest(2, pending=(guest.seen & left) | ended)
            case 2:
                taken = world._replace(visible=world.visible & ~guest.pending, staged=world.staged & ~guest.pending)
                return taken, Guest(3)
            case _:
                return world, guest

    def recovered(self, world: World) -> World:
        """The world after every owner has died and recovery has finished."""
        for number in (0, 1):
            state = world.transactions[number].state
            if state in (NONE, FINISHED, ABORTED):
                continue
            actor = Actor(Step.RESUME)
            while actor.step != Step.DONE:
                world, actor = next(self.steps(world, number, actor))
        return world


def put(world: World, number: int, **values: int) -> World:
    changed = world.transactions[number]._replace(**values)
    first, second = world.transactions
    return world._replace(transactions=(changed, second) if number == 0 else (first, changed))


def check_world(protocol: Protocol, world: World) -> None:
    """Assert promises 1, 2 and 4, which hold in every state."""
    committed = [t for t in world.transactions if t.version]
    checked = 0
    for transaction in committed:
        checked |= transaction.fixed | transaction.unknown
    assert not world.written & ~world.visible & ~checked, "a foreign file was lost"
    expected = OLD
    for transaction in sorted(committed, key=lambda t: t.version):
        number = world.transactions.index(transaction)
        expected = (0 if protocol.overwrites[number] else expected) | ALL[number]
    assert world.alive & ~FOREIGN == expected, "readers of the index see something that is neither old nor new"
    # A foreign file that a repair registered may be replaced by the Hive engine afterwards.
    assert world.alive & ~world.visible & ~(FOREIGN & ~world.written) == 0, "the index names a file that is not there"
    for number, transaction in enumerate(world.transactions):
        assert transaction.reserved or not world.visible & ALL[number], (
            "a file was visible before its write was reserved"
        )
        if transaction.version:
            assert transaction.state in (COMMITTED, FINISHED), "a committed transaction was taken back"
    if protocol.conflicts() and len(committed) == 2:
        first, second = sorted(committed, key=lambda t: t.version)
        assert first.version <= second.base, "a write committed over one that it had not read"


def check_reported(world: World, recovered: World, owners: tuple[Actor, Actor]) -> None:
    """Assert promises 3 to 5: the result that a user saw stays true, now and after recovery."""
    for owner, number in zip(owners, (0, 1), strict=True):
        reported = owner.reported if owner.step == Step.DONE else NOTHING
        transaction = world.transactions[number]
        if reported == SUCCESS:
            assert transaction.version, "success was reported for a write that is not committed"
        if reported in (CONFLICT, FAILURE):
            assert not transaction.version, "failure was reported for a write that is committed"
            after = recovered.transactions[number].state
            assert after == ABORTED, "failure was reported, and recovery committed the write"
        if reported == CONFLICT:
            assert not transaction.reserved, "the race was lost after files had become visible"
        # Tasks that outlive the recovery of their transaction leave hidden files. If the owner dies, vacuum deletes
        # them.
        left = recovered.staged & ALL[number]
        assert not (left if reported else left & ~recovered.late), "a staged file was left"


def check_recovered(protocol: Protocol, world: World) -> None:
    """Assert promises 2 and 3 after recovery."""
    check_world(protocol, world)
    # The next repair registers foreign files.
    ours = (world.visible & ~FOREIGN, world.alive & ~FOREIGN)
    assert ours[0] == ours[1], "the listing shows something other than the index"
    assert all(transaction.state in (NONE, FINISHED, ABORTED) for transaction in world.transactions)
    assert not world.unsettled, "something was left unsettled"


def after_power_loss(world: World) -> Iterator[World]:
    """The worlds that a power loss may leave: any subset of the changes that were not synced is on disk."""
    for undone in subsets(world.volatile & world.visible):
        for back in subsets(world.ghosts):
            yield world._replace(
                staged=world.staged | undone, visible=world.visible & ~undone | back, volatile=0, ghosts=0
            )


def subsets(bits: int) -> Iterator[int]:
    part = bits
    while True:
        yield part
        if not part:
            return
        part = (part - 1) & bits


def check_repaired(protocol: Protocol, world: World) -> None:
    """Assert that a repair after recovery registers foreign files and changes nothing else."""
    guest = Guest()
    while guest.step < 4:
        world, guest = protocol.repair(world, guest)
    check_world(protocol, world)
    assert world.visible == world.alive, "a repair after recovery leaves rows out, or has them twice"


def search(protocol: Protocol) -> tuple[int, set[tuple[int, int]]]:
    """Return the number of situations, and all pairs of results that the two users can see.

    Raises:
        AssertionError: A promise is broken.
    """
    start = Situation(World())
    if protocol.guest.endswith(" hive"):
        # With two guests there is only one writer, which keeps the search short.
        start = start._replace(owners=(Actor(Step.DONE), Actor()))
    seen, stack = {start}, [start]
    ends: set[tuple[int, int]] = set()
    recovered: dict[World, World] = {}
    while stack:
        situation = stack.pop()
        world, owners, _, _ = situation
        after_recovery = recovered.get(world)
        if after_recovery is None:
            check_world(protocol, world)
            after_recovery = recovered[world] = protocol.recovered(world)
            check_recovered(protocol, after_recovery)
            if "power" in protocol.guest:
                for dark in after_power_loss(world):
                    after = protocol.recovered(dark)
                    check_recovered(protocol, after)
            if protocol.guest:
                check_repaired(protocol, after_recovery)
        check_reported(world, after_recovery, owners)
        if owners[0].step == Step.DONE and owners[1].step == Step.DONE:
            ends.add((owners[0].reported, owners[1].reported))
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
        ("promote before reserve", "a file was visible before its write was reserved"),
        ("undo deletes the target first", "the listing shows something other than the index"),
        ("undo forgets the targets", "the listing shows something other than the index"),
        ("apply does not compare the state", "neither old nor new|is not there|was taken back|committed over"),
        ("abort does not compare the state", "was taken back|is not there"),
        ("take back does not compare the state", "was taken back|is not there"),
        # The second ``apply`` carries over the files of the first one.
        (
            "reserve ignores reserved transactions",
            "a write committed over one that it had not read|neither old nor new",
        ),
        ("reserve ignores committed transactions", "a write committed over one that it had not read"),
        ("apply finishes a replacing write", "the listing shows something other than the index"),
        ("clean finishes before it deletes", "the listing shows something other than the index"),
        ("a lost answer of reserve is a failure", "failure was reported"),
        ("a lost answer of apply is a failure", "failure was reported for a write that is committed"),
    ],
)
def test_search_finds_mistake(mistake: str, broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        search(Protocol((True, True), mistake))


BOTH = (False, True)


@pytest.mark.parametrize("guest", ["repair", "vacuum", "repair hive", "vacuum hive", "refusal power"])
def test_no_guest_breaks_a_promise(guest: str) -> None:
    situations, ends = search(Protocol(BOTH, guest=guest))
    assert situations > 2_000, "the search has not gone far"
    assert (NOTHING if guest.endswith(" hive") else SUCCESS, SUCCESS) in ends


@pytest.mark.parametrize(
    ("guest", "mistake", "broken"),
    [
        ("repair", "repair does not compare the version", "neither old nor new|is not there"),
        ("repair", "repair asks for writers before it lists", "neither old nor new|is not there"),
        ("repair", "repair asks for removals after it lists", "neither old nor new|is not there"),
        ("vacuum", "vacuum deletes files of uncommitted writes", "is not there"),
        ("hive", "clean compares names only", "a foreign file was lost"),
        ("vacuum hive", "vacuum compares times of the store's clock", "a foreign file was lost"),
        ("repair hive", "apply ends rows that came after reserve", "a foreign file was lost"),
        ("power", "promote does not sync", "is not there"),
        ("power", "clean does not sync", "the listing shows something other than the index"),
        ("refusal", "staging is removed before promote", "a file that is not there"),
        ("refusal power", "undo does not sync", "the listing shows something other than the index"),
    ],
)
def test_search_finds_mistake_beside_guest(guest: str, mistake: str, broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        search(Protocol(BOTH, mistake, guest))


@pytest.mark.parametrize(
    ("overwrites", "guest"), [((True, True), ""), (BOTH, ""), (BOTH, "repair"), (BOTH, "vacuum"), (BOTH, "repair hive")]
)
def test_no_interleaving_of_what_ends_everything_breaks_a_promise(overwrites: tuple[bool, bool], guest: str) -> None:
    situations, ends = search(Protocol(overwrites, guest=guest, settles=True))
    assert situations > 2_000, "the search has not gone far"
    assert (NOTHING if guest.endswith(" hive") else SUCCESS, SUCCESS) in ends


@pytest.mark.parametrize(
    ("guest", "mistake", "broken"),
    [
        ("", "a writer does not settle first", "neither old nor new"),
        ("", "the clean-up does not settle first", "the listing shows something other than the index"),
        ("repair", "repair does not settle first", "neither old nor new|is not there"),
        ("repair hive", "apply ends rows that came after reserve", "a foreign file was lost"),
    ],
)
def test_the_search_finds_who_does_not_settle_first(guest: str, mistake: str, broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        search(Protocol(BOTH, mistake, guest, settles=True))
