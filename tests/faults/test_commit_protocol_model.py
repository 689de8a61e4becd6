"""docs/spec/commit-protocol.md as a model, searched state by state.

Two writers of one partition, a recoverer that may take any unfinished transaction at any moment (a lease says nothing
about whether its owner still lives, so that no clock matters to it), a staged file that vanishes, answers of the
database that get lost, and a crash of anybody between any two atomic steps. What is atomic in the model is atomic in
the world: one database transaction, one rename or completed upload, one deletion.

With them goes a guest, one at a time, which keeps the search short: a repair, a vacuum, a Hive engine that writes a
file, and again one of the same name, and deletes what was there, a store that refuses for good, or a power loss.

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
ABORT, GONE, UNDO, UNDONE, TAKEN, ASK, DONE, SYNC, SWEPT, TIDY = range(9, 19)
# The states of a transaction.
NONE, OPEN, RESERVED, COMMITTED, FINISHED, ABORTING, ABORTED = range(7)
# What the user was told.
NOTHING, SUCCESS, CONFLICT, FAILURE, UNKNOWN = range(5)

OLD = 1
"""The bit of the file that was there before; the others are the two files of one writer and the one of the other."""
FILES = ((2, 4), (8,))
ALL = (6, 8)
HIVE, HIVE_AGAIN = 16, 32
"""A foreign file, and the one that has its name after it."""
FOREIGN = HIVE | HIVE_AGAIN


class Transaction(NamedTuple):
    """The row: its state, the version it read, the version it made, what it is to delete, whether it ever reserved.

    ``unknown`` are the foreign files that it has found and is to delete with what it replaces, ``fixed`` are the files
    that the index had when it was reserved, if it is to replace them.
    """

    state: int = NONE
    base: int = 0
    version: int = 0
    removals: int = 0
    reserved: bool = False
    unknown: int = 0
    fixed: int = 0


class Guest(NamedTuple):
    """How far a repair or a vacuum has come, and what it has seen: the files, and the index before or after that."""

    step: int = 0
    version: int = 0
    alive: int = 0
    pending: int = 0
    seen: int = 0
    uncommitted: int = 0


class Actor(NamedTuple):
    """Somebody at a step, with how far the step has come (files promoted, half files undone), and what was told."""

    step: int = BEGIN
    at: int = 0
    told: int = NOTHING


class World(NamedTuple):
    """What survives a crash; ``late`` files were staged after an undoing had begun.

    Of a disk without power ``volatile`` renames may come undone, and ``ghosts``, files that were deleted, come back.
    ``written`` are the foreign files that the Hive engine has not replaced or deleted itself, ``repaired`` is the
    version that a repair has made. ``unsettled`` are the files that the overwrite of everything by the writer ``floor``
    has ended, as readers see it, and whose rows do not say so yet.
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
    """The world and where everybody is in it; the recoverer may be idle, or has lost all that it knew."""

    world: World
    owners: tuple[Actor, Actor] = (Actor(), Actor())
    recoverer: tuple[int, Actor] | None = None
    guest: Guest = Guest()


@dataclass(frozen=True)
class Protocol:
    """The protocol, with one mistake or none.

    Attributes:
        overwrites: Of each writer, whether it overwrites the partition; otherwise it appends.
        mistake: What this protocol does wrong.
        guest: Who else is there: ``repair``, ``vacuum``, ``hive``, ``refusal``, ``power``, or several of them.
        settles: Whether overwrites are of so much that its rows are ended after the commit, one a step.
    """

    overwrites: tuple[bool, bool]
    mistake: str = ""
    guest: str = ""
    settles: bool = False

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
                # An overwrite notes the foreign files that lie there now.
                found = world.visible & FOREIGN & ~world.alive if self.overwrites[number] else 0
                yield world, Actor(ABORT, told=FAILURE) if missing else Actor(following, found)
            case 4:
                yield from self._reserve(world, number, actor.at)
            case 5:
                yield from self._promote(world, number, actor)
            case 6:
                yield from self._commit(world, number, tidied=bool(actor.at))
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
            case 16:  # SYNC
                yield world._replace(volatile=world.volatile & ~ALL[number]), self._promoted(number)
            case 18:  # TIDY: what only adds files removes what it has staged before its commit, or fails to
                early = self.mistake == "tidy before the promotion"
                yield world._replace(staged=world.staged & ~ALL[number]), Actor(PROMOTE if early else COMMIT, not early)
                yield world, Actor(COMMIT)
            case 17:  # SWEPT: what was deleted stays so
                after = TAKEN if self.mistake == "finish before the clean-up" else FINISH
                yield world._replace(ghosts=world.ghosts & ~transaction.removals), Actor(after)
            case 12:  # UNDONE
                if "power" in self.guest and self.mistake != "an undoing is not synced":
                    world = world._replace(ghosts=world.ghosts & ~ALL[number])
                won = transaction.state == ABORTING
                told = actor.told or FAILURE
                yield (put(world, number, state=ABORTED) if won else world), Actor(DONE, told=told)
            case 13:  # TAKEN
                yield world, self._after_taken(transaction.state, actor)
            case 14:  # ASK
                again = Actor(RESERVE, actor.at)
                yield world, again if transaction.state == OPEN else self._after_taken(transaction.state, actor)
                yield world, Actor(DONE, told=UNKNOWN)

    def _reserve(self, world: World, number: int, found: int) -> Iterator[tuple[World, Actor]]:
        mine, other = world.transactions[number], world.transactions[1 - number]
        if mine.state != OPEN:
            yield world, Actor(TAKEN)
            return
        if self._comes_after(world):
            yield self.settled(world), Actor(RESERVE, found)
            return
        rival = other.state == RESERVED and self.mistake != "reserve forgets who is reserved"
        seen = other.version <= mine.base or self.mistake == "reserve forgets who has committed"
        later = other.state in (COMMITTED, FINISHED) and not seen
        repaired = self.overwrites[number] and world.repaired > mine.base
        if repaired or (self.conflicts() and (rival or later)):
            yield world, Actor(ABORT, told=CONFLICT)
            return
        fixed = world.alive if self.overwrites[number] else 0
        after = put(world, number, state=RESERVED, reserved=True, unknown=found, fixed=fixed)
        yield after, Actor(self._after_reserve(number))
        if self.mistake == "a lost answer of reserve is a failure":
            yield after, Actor(DONE, told=FAILURE)
        elif number == 0 and not self.guest:  # the answer, or the question, is lost; only so the search stays short
            yield after, Actor(ASK, found)
            yield world, Actor(ASK, found)

    def _after_reserve(self, number: int) -> int:
        if self.mistake == "tidy before the promotion" and not self.overwrites[number]:
            return TIDY
        return COMMIT if self.mistake == "promote before reserve" else PROMOTE

    def _promote(self, world: World, number: int, actor: Actor) -> Iterator[tuple[World, Actor]]:
        """Files in any order; ``at`` has the bits of those that are done."""
        early = self.mistake == "promote before reserve" and not world.transactions[number].reserved
        for bit in FILES[number]:
            if actor.at & bit:
                continue
            done = actor.at | bit
            last = Actor(RESERVE) if early else Actor(SYNC) if self._syncs() else self._promoted(number)
            following = Actor(PROMOTE, done) if done != ALL[number] else last
            if "refusal" in self.guest:
                yield world, Actor(GONE)
            if world.staged & bit:
                volatile = world.volatile | bit if "power" in self.guest else 0
                moved = world._replace(staged=world.staged & ~bit, visible=world.visible | bit, volatile=volatile)
                yield moved, following
            else:
                yield world, following if world.visible & bit else Actor(GONE)

    def _promoted(self, number: int) -> Actor:
        tidies = not self.overwrites[number] or self.mistake == "what replaces is finished by its commit"
        return Actor(TIDY if tidies and self.mistake != "tidy before the promotion" else COMMIT)

    def _syncs(self) -> bool:
        return "power" in self.guest and self.mistake != "a promotion is not synced"

    def _commit(self, world: World, number: int, *, tidied: bool) -> Iterator[tuple[World, Actor]]:
        mine = world.transactions[number]
        blind = self.mistake == "commit without comparing" and mine.state != COMMITTED
        if mine.state != RESERVED and not blind:
            yield world, Actor(TAKEN)
            return
        if self._comes_after(world):
            yield self.settled(world), Actor(COMMIT, int(tidied))
            return
        # Rows without an end: all of them are alive, where nothing is unsettled.
        rows = world.alive | world.unsettled
        # What a repair has registered since the reservation is carried over.
        looked_at = rows if self.mistake == "a commit ends what is alive now" else mine.fixed | mine.unknown
        replaced = rows & looked_at if self.overwrites[number] else 0
        unsettled = replaced if self.overwrites[number] and self.settles else world.unsettled
        removals = (0 if self.settles else replaced) | mine.unknown if self.overwrites[number] else 0
        version = world.version + 1
        # Who has tidied and replaces nothing has nothing to clean up.
        ended = tidied and (not removals or self.mistake == "what replaces is finished by its commit")
        after = put(world, number, state=FINISHED if ended else COMMITTED, version=version, removals=removals)
        after = after._replace(alive=rows & ~replaced | ALL[number], version=version)
        if self.settles and self.overwrites[number]:
            after = after._replace(unsettled=unsettled, floor=number)
        early = self.mistake == "finish before the clean-up"
        yield after, Actor(DONE, told=SUCCESS) if ended else Actor(FINISH if early else CLEAN)
        if self.mistake == "a lost answer of commit is a failure":
            yield after, Actor(DONE, told=FAILURE)
        elif number == 0 and not self.guest:
            yield after, Actor(ASK)
            yield world, Actor(ASK)

    def _comes_after(self, world: World) -> bool:
        """Whether whoever locks the table has to settle something first."""
        return bool(world.unsettled) and self.mistake != "a writer does not settle first"

    def settled(self, world: World) -> World:
        """The world with one more row that says of its end: its file is to be deleted by who has ended it."""
        bit = world.unsettled & -world.unsettled
        removals = world.transactions[world.floor].removals | bit
        return put(world._replace(unsettled=world.unsettled & ~bit), world.floor, removals=removals)

    def _clean(self, world: World, number: int) -> tuple[World, Actor]:
        mine = world.unsettled and world.floor == number
        if mine and self.mistake != "the clean-up does not settle first":
            return self.settled(world), Actor(CLEAN)
        removals = world.transactions[number].removals
        if self.mistake == "the clean-up goes by names" and removals & FOREIGN:
            removals |= FOREIGN
        left = removals & world.visible
        if not left:
            syncs = "power" in self.guest and self.mistake != "a clean-up is not synced"
            return world._replace(staged=world.staged & ~ALL[number]), Actor(SWEPT if syncs else FINISH)
        return self._deleted(world, left & -left), Actor(CLEAN)

    def _deleted(self, world: World, bit: int) -> World:
        ghosts = world.ghosts | (bit & world.visible) if "power" in self.guest else 0
        return world._replace(visible=world.visible & ~bit, ghosts=ghosts, volatile=world.volatile & ~bit)

    def _undo(self, world: World, number: int, actor: Actor) -> tuple[World, Actor]:
        """Half a file a step: the source, then the target."""
        file, half = divmod(actor.at, 2)
        bit = FILES[number][file]
        if (half == 0) is (self.mistake != "undo deletes the target first"):
            after = world._replace(staged=world.staged & ~bit, late=world.late & ~bit)
        elif self.mistake == "undo forgets the targets":
            after = world
        else:
            after = self._deleted(world, bit)
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
        world, owners, recoverer, guest = situation
        first, second = owners
        if first.step != DONE:
            for after, actor in self.steps(world, 0, first):
                yield Situation(after, (actor, second), recoverer, guest)
        if second.step != DONE:
            for after, actor in self.steps(world, 1, second):
                yield Situation(after, (first, actor), recoverer, guest)
        if recoverer is None:
            for number, transaction in enumerate(world.transactions):
                if self.guest in ("repair", "vacuum") and number == 0:
                    # Whom somebody recovers and whom not makes no difference to those, but a long search.
                    continue
                if transaction.state in (OPEN, RESERVED, COMMITTED, ABORTING):
                    yield Situation(world, owners, (number, Actor(TAKEN)), guest)
        else:
            number, recovering = recoverer
            if not self.guest:
                yield Situation(world, owners, None, guest)  # it crashes
            for after, actor in self.steps(world, number, recovering):
                # A recoverer that has lost sight of the database starts again later.
                yield Situation(after, owners, None if actor.step in (DONE, ASK) else (number, actor), guest)
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
        """What a Hive engine does: it writes a file, and then one of the same name in its place."""
        if not world.written:
            yield world._replace(visible=world.visible | HIVE, written=HIVE)
        elif world.written == HIVE:
            yield world._replace(visible=world.visible & ~HIVE | HIVE_AGAIN, written=HIVE_AGAIN)

    def repair(self, world: World, guest: Guest) -> tuple[World, Guest]:
        """The next step of a repair, which makes the index what it has listed."""
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
                fenced = world.version == guest.version or self.mistake == "repair has no fence"
                after = world
                if fenced and known != world.alive:
                    version = world.version + 1
                    after = world._replace(alive=known, version=version, repaired=version)
                return after, Guest(4)
            case _:
                return world, guest

    def _pending(self, world: World) -> int:
        """What committed transactions have yet to delete."""
        pending = 0
        for transaction in world.transactions:
            if transaction.state == COMMITTED:
                pending |= transaction.removals
        return pending

    def vacuum(self, world: World, guest: Guest) -> tuple[World, Guest]:
        """The next step of a vacuum that keeps no version: it deletes what writes have replaced or left."""
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
                        self.mistake == "vacuum takes what is not committed" and not transaction.version
                    ):
                        left |= ALL[number]
                if self.mistake == "vacuum goes by the clock" and ended & FOREIGN:
                    # The one that was written since has, by the clock of the store, been written before.
                    ended |= FOREIGN
                return world, Guest(2, pending=(guest.seen & left) | ended)
            case 2:
                taken = world._replace(visible=world.visible & ~guest.pending, staged=world.staged & ~guest.pending)
                return taken, Guest(3)
            case _:
                return world, guest

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
    looked_at = 0
    for transaction in committed:
        looked_at |= transaction.fixed | transaction.unknown
    assert not world.written & ~world.visible & ~looked_at, "a foreign file was lost"
    expected = OLD
    for transaction in sorted(committed, key=lambda t: t.version):
        number = world.transactions.index(transaction)
        expected = (0 if protocol.overwrites[number] else expected) | ALL[number]
    assert world.alive & ~FOREIGN == expected, "readers of the index see something that is neither old nor new"
    # A repair takes a foreign file in, and the Hive engine replaces it.
    assert world.alive & ~world.visible & ~(FOREIGN & ~world.written) == 0, "the index names a file that is not there"
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
    # Foreign files are the next repair's.
    ours = (world.visible & ~FOREIGN, world.alive & ~FOREIGN)
    assert ours[0] == ours[1], "the listing shows something other than the index"
    assert all(transaction.state in (NONE, FINISHED, ABORTED) for transaction in world.transactions)
    assert not world.unsettled, "something was left unsettled"


def after_power_loss(world: World) -> Iterator[World]:
    """The worlds that a power loss may leave: of what was not synced, any part has happened."""
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
    """A repair after recovery takes in what is foreign, and changes nothing else."""
    guest = Guest()
    while guest.step < 4:
        world, guest = protocol.repair(world, guest)
    check_world(protocol, world)
    assert world.visible == world.alive, "a repair after recovery leaves rows out, or has them twice"


def search(protocol: Protocol) -> tuple[int, set[tuple[int, int]]]:
    """The number of situations, and what the two users can be told; raises where a promise breaks."""
    start = Situation(World())
    if protocol.guest.endswith(" hive"):
        # Two guests and one writer, which keeps the search short.
        start = start._replace(owners=(Actor(DONE), Actor()))
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
        # The second commit carries over what the first one has brought.
        ("reserve forgets who is reserved", "a write committed over one that it had not seen|neither old nor new"),
        ("reserve forgets who has committed", "a write committed over one that it had not seen"),
        ("what replaces is finished by its commit", "the listing shows something other than the index"),
        ("finish before the clean-up", "the listing shows something other than the index"),
        ("a lost answer of reserve is a failure", "failure was told"),
        ("a lost answer of commit is a failure", "failure was told of a write that is committed"),
    ],
)
def test_the_search_finds_a_protocol_with_a_mistake(mistake: str, broken: str) -> None:
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
        ("repair", "repair has no fence", "neither old nor new|is not there"),
        ("repair", "repair asks for writers before it lists", "neither old nor new|is not there"),
        ("repair", "repair asks for removals after it lists", "neither old nor new|is not there"),
        ("vacuum", "vacuum takes what is not committed", "is not there"),
        ("hive", "the clean-up goes by names", "a foreign file was lost"),
        ("vacuum hive", "vacuum goes by the clock", "a foreign file was lost"),
        ("repair hive", "a commit ends what is alive now", "a foreign file was lost"),
        ("power", "a promotion is not synced", "is not there"),
        ("power", "a clean-up is not synced", "the listing shows something other than the index"),
        ("refusal", "tidy before the promotion", "a file that is not there"),
        ("refusal power", "an undoing is not synced", "the listing shows something other than the index"),
    ],
)
def test_the_search_finds_what_a_guest_makes_of_a_mistake(guest: str, mistake: str, broken: str) -> None:
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
        ("repair hive", "a commit ends what is alive now", "a foreign file was lost"),
    ],
)
def test_the_search_finds_who_does_not_settle_first(guest: str, mistake: str, broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        search(Protocol(BOTH, mistake, guest, settles=True))
