"""Reads the templates of error messages out of the connector's Scala sources."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docs.tools.error_messages import LONGEST_TEXT, Choice, Hole, rendered, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from docs.tools.error_messages import Piece


def scala_text(text: str, start: int, constants: Mapping[str, str]) -> str:
    """The message that begins at ``start``: texts joined by ``+``, up to the end of the argument."""
    return rendered(list(_Scala(text, start, constants).joined(start)[0]))


class _Scala:
    """Reads the parts of a text out of Scala code."""

    def __init__(self, code: str, start: int, constants: Mapping[str, str]) -> None:
        self._code = code
        self._start = start
        self._constants = constants

    def joined(self, at: int) -> tuple[list[Piece], int]:
        """The texts joined by ``+`` from ``at`` on, and where the argument ends."""
        pieces: list[Piece] = []
        while True:
            at = self._behind(r"\s*", at)
            if literal := re.compile(r's?"').match(self._code, at):
                found, at = self._literal(literal.end())
                pieces += found
            elif self._code.startswith("(if ", at):
                choice, at = self._choice(at)
                pieces.append(choice)
            else:
                end = self._end(at)
                pieces += self._shown(self._code[at:end].strip())
                at = end
            following = self._behind(r"\s*", at)
            if self._code[following] != "+":
                return pieces, at
            at = following + 1

    def _behind(self, pattern: str, at: int) -> int:
        found = re.compile(pattern).match(self._code, at)
        return found.end() if found else at

    def _choice(self, at: int) -> tuple[Choice, int]:
        """``(if (condition) text else text)``."""
        choice, at = self._if(at + 1)
        return choice, self._behind(r"\s*\)", at)

    def _if(self, at: int) -> tuple[Choice, int]:
        first, at = self.joined(self._end(at + len("if (")) + 1)
        second, at = self.joined(self._behind(r"\s*else\s+", at))
        return Choice(first, second), at

    def _text_of(self, name: str) -> list[Piece] | None:
        """The text of the last value or method of a name before the message, where that is short."""
        found = list(re.finditer(rf"\b(?:val|def) {name}(?:: String)? =\s+(?=if \(|s?\")", self._code))
        if not found:
            return None
        before = [match for match in found if match.start() < self._start]
        at = (before or found)[-1].end()
        pieces: list[Piece] = [self._if(at)[0]] if self._code.startswith("if", at) else self.joined(at)[0]
        return pieces if len(rendered(pieces)) <= LONGEST_TEXT else None

    def _end(self, at: int) -> int:
        """Where the expression at ``at`` ends: before a comma, plus or closing bracket of its own level."""
        depth, quoted = 0, False
        while depth or quoted or self._code[at] not in ",+)}":
            letter = self._code[at]
            quoted ^= letter == '"'
            depth += 0 if quoted else {"(": 1, "{": 1, ")": -1, "}": -1}.get(letter, 0)
            at += 1
        return at

    def _literal(self, at: int) -> tuple[list[Piece], int]:
        """The content of a string from behind its opening quote, and where it ends."""
        pieces: list[Piece] = []
        while self._code[at] != '"':
            if self._code.startswith("${", at):
                end = _closing(self._code, at + 2)
                pieces += self._shown(self._code[at + 2 : end])
                at = end + 1
            elif name := re.compile(r"\$(\w+)").match(self._code, at):
                pieces += self._shown(name[1])
                at = name.end()
            else:
                at += self._code[at] == "\\"
                pieces.append(self._code[at])
                at += 1
        return pieces, at + 1

    def _shown(self, expression: str) -> Sequence[Piece]:
        name = re.fullmatch(r"(?:file\.)?([a-z]\w*)", expression)
        return (name and self._text_of(name[1])) or [self._hole(expression)]

    def _hole(self, expression: str) -> Piece:
        plain = expression
        while (shorter := _without_call(plain)) != plain:
            plain = shorter
        last = re.fullmatch(r"(?:[\w()]+\.)*(\w+)(?:\(\w*\))?", plain)
        if last and last[1] in self._constants and last[1][0].isupper():
            return self._constants[last[1]]
        noun = words(last[1]) if last else None
        if noun in ("name", "head") and last and (owner := re.search(r"(\w+)(?:\(\))?\.\w+(?:\(\))?$", plain)):
            noun = words(owner[1])
        return Hole(expression, noun)


def _without_call(expression: str) -> str:
    """Remove a call that only writes its subject in another way."""
    shorter = re.sub(
        r"\.(?:mkString|map|take|getOrElse|stripSuffix|toLowerCase|items|asText)\((?:[^()]|\([^()]*\))*\)$",
        "",
        expression,
    )
    return re.sub(r"^(?:shown|quoted|quoteIdentifier|Option|reason)\((.*)\)$", r"\1", shorter)


def _closing(text: str, at: int) -> int:
    """Where the brace that was opened before ``at`` is closed."""
    depth = 1
    while True:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
        at += 1


def scala_constants(texts: Sequence[str]) -> dict[str, str]:
    """The texts that Scala's constants hold, by their names; of a name with several texts none."""
    found: dict[str, set[str]] = {}
    for text in texts:
        for name, value in re.findall(r'\bval ([A-Z]\w*)(?:: String)? = "([^"$]*)"', text):
            found.setdefault(name, set()).add(value)
    return {name: values.pop() for name, values in found.items() if len(values) == 1}
