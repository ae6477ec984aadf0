"""Reads a history and counts what must not be in it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

from .history import lines

Token: TypeAlias = int
Time: TypeAlias = int
FINAL = ("ack", "reject")


class Claim(NamedTuple):
    """The message was claimed after `sent` and before `got`.

    Tokens do not tell the order of claims: a call takes its number first and messages later.
    """

    sent: Time
    got: Time


@dataclass
class Settle:
    """All that is known of a message being settled under one token."""

    verb: str
    sent: Time
    answer: str | None = None
    uncertain: bool = False  # was sent again without an answer to the first time

    def may_be_done(self) -> bool:
        return self.answer != "!" or self.uncertain


@dataclass
class Story:
    """One message, by its id."""

    claims: dict[Token, Claim] = field(default_factory=dict)
    settles: dict[Token, Settle] = field(default_factory=dict)

    def may_be_done(self) -> bool:
        """An ack was done, or may have been done."""
        return any(s.verb in FINAL and s.may_be_done() for s in self.settles.values())

    def claimed_after(self, token: Token) -> list[Token]:
        """Those that surely claimed it later than this one."""
        got = self.claims[token].got
        return [other for other, claim in self.claims.items() if claim.sent > got]


@dataclass
class Verdict:
    """Each list names what was found; a good run has none."""

    messages: int = 0
    committed: int = 0
    unknown: int = 0
    acked: int = 0
    runs: int = 0
    repeated: int = 0
    lost: list[str] = field(default_factory=list)
    stale_settles: list[str] = field(default_factory=list)
    ghosts: list[str] = field(default_factory=list)
    order_violations: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        found = vars(self).items()
        return {name: len(value) if isinstance(value, list) else value for name, value in found}

    def examples(self) -> list[str]:
        """The first few of each kind."""
        found = [self.lost, self.stale_settles, self.ghosts, self.order_violations]
        return [text for kind in found for text in kind[:5]]


class Checker:
    """Takes a history in, whole; `verdict` says what it shows, once all is quiet."""

    def __init__(self, place: Path) -> None:
        self.tried: dict[int, tuple[int, int]] = {}  # nonce -> group, seq
        self.committed: dict[int, int] = {}  # nonce -> id
        self.rolled_back: set[int] = set()
        self.nonces: dict[int, int] = {}  # id -> nonce
        self.stories: defaultdict[int, Story] = defaultdict(Story)
        self.acks: list[Time] = []
        self.runs = 0
        for kind, *rest in lines(place):
            self._take(kind, rest)

    def _take(self, kind: str, rest: list[str]) -> None:
        if kind in "><!":
            self._settle(kind, rest[0], int(rest[1]), int(rest[2]), int(rest[3]))
            return
        numbers = [int(part) for part in rest]
        if kind == "T":
            self.tried[numbers[0]] = (numbers[1], numbers[2])
        elif kind == "E":
            self.committed[numbers[0]] = numbers[1]
            self.nonces[numbers[1]] = numbers[0]
        elif kind == "R":
            self.rolled_back.add(numbers[0])
        elif kind == "C":
            id, token, sent, got = numbers
            self.stories[id].claims[token] = Claim(sent, got)
        elif kind == "S":
            self.runs += 1
            self.nonces.setdefault(numbers[0], numbers[2])

    def _settle(self, kind: str, verb: str, id: int, token: int, at: int) -> None:
        settles = self.stories[id].settles
        known = settles.get(token)
        if kind != ">":
            settles[token].answer = kind
            if (kind, verb) == ("<", "ack"):
                self.acks.append(at)
        elif known is None:
            settles[token] = Settle(verb, at)
        elif known.answer is None:
            known.uncertain = True

    def verdict(self, left: frozenset[int] = frozenset()) -> Verdict:
        """`left` are the ids that the database still has, after every chance to be delivered."""
        found = Verdict(
            messages=len(self.tried),
            committed=len(self.committed),
            unknown=len(self.tried) - len(self.committed) - len(self.rolled_back),
            acked=sum(story.may_be_done() for story in self.stories.values()),
            runs=self.runs,
            repeated=sum(len(story.claims) > 1 for story in self.stories.values()),
        )
        self._find_lost(found, left)
        self._find_ghosts(found)
        for id, story in self.stories.items():
            self._find_stale(found, id, story)
        self._find_disorder(found)
        return found

    def _find_lost(self, found: Verdict, left: frozenset[int]) -> None:
        for nonce, id in self.committed.items():
            if id in left:
                found.lost.append(f"message {id} ({nonce}) was never delivered to its end")
            elif not self.stories[id].may_be_done():
                found.lost.append(f"message {id} ({nonce}) does not exist, and no worker acked it")

    def _find_ghosts(self, found: Verdict) -> None:
        for id in self.stories:
            nonce = self.nonces.get(id)
            if nonce in self.rolled_back:
                found.ghosts.append(f"message {id} ({nonce}) was delivered, though rolled back")
            elif nonce is not None and nonce not in self.tried:
                found.ghosts.append(f"message {id} ({nonce}) was delivered, but never enqueued")

    def _find_stale(self, found: Verdict, id: int, story: Story) -> None:
        done = {token: s for token, s in story.settles.items() if s.answer == "<"}
        for token, settle in done.items():
            for other in story.claimed_after(token):
                if settle.verb in FINAL or story.claims[other].got < settle.sent:
                    found.stale_settles.append(
                        f"message {id}: {settle.verb} of {token} was done, "
                        f"though {other} had claimed it, or was given it afterwards"
                    )
        if sum(settle.verb in FINAL for settle in done.values()) > 1:
            found.stale_settles.append(f"message {id} was finished more than once")

    def _find_disorder(self, found: Verdict) -> None:
        ids = {nonce: id for id, nonce in self.nonces.items()}
        groups: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for nonce, (group, seq) in self.tried.items():
            if group and nonce in ids and self.stories[ids[nonce]].claims:
                groups[group].append((seq, ids[nonce]))
        for group, members in groups.items():
            members.sort()
            for (seq, before), (_, after) in pairwise(members):
                if wrong := _disorder(self.stories[before], self.stories[after]):
                    found.order_violations.append(
                        f"group {group}: {after} after {before} ({seq}): {wrong}"
                    )


def _disorder(before: Story, after: Story) -> str | None:
    """What is wrong between two messages that follow each other in a group."""
    first = min(claim.got for claim in after.claims.values())
    if any(claim.sent > first for claim in before.claims.values()):
        return "the earlier one was claimed again after the later one"
    # Written before it was sent, and the claim after it was answered.
    ended = [settle.sent for settle in before.settles.values() if settle.verb in FINAL]
    if not ended or min(ended) > first:
        return "the later one was claimed before the earlier one was settled"
    return None
