"""Splits the lines of a CSV file into fields, and names the columns of its header, as Spark does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.model.separators import separator_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.scan.text_lines import Head, ReaderOptions


@dataclass(frozen=True, slots=True)
class Dialect:
    """The characters and rules by which a line of a CSV file is split into fields."""

    separator: str
    quote: str
    escape: str
    comment: str
    trim_left: bool
    trim_right: bool
    multi_line: bool
    line_separator: str | None

    @classmethod
    def of(cls, options: ReaderOptions) -> Dialect:
        """Return the dialect that the options describe.

        Raises:
            InvalidConfigurationError: The separator is empty.
        """
        separator = separator_of(options.text("sep", "delimiter", default=","))
        if not separator:
            raise InvalidConfigurationError("The option 'sep' is empty; it must be at least one character.")
        return cls(
            separator,
            options.text("quote", default='"'),
            options.text("escape", default="\\"),
            options.text("comment", default=""),
            options.flag("ignoreLeadingWhiteSpace"),
            options.flag("ignoreTrailingWhiteSpace"),
            options.flag("multiLine"),
            options.text("lineSep", default="") or None,
        )

    def rows(self, head: Head) -> Iterator[list[str]]:
        """Yield the fields of each line that is neither blank nor a comment."""
        pending = ""
        for line in head.lines(self.line_separator):
            if not pending and (not line.strip() or (self.comment and line.startswith(self.comment))):
                continue
            record = f"{pending}\n{line}" if pending else line
            fields, is_open = self._split(record)
            if is_open and self.multi_line:
                pending = record
                continue
            pending = ""
            yield fields

    def _split(self, line: str) -> tuple[list[str], bool]:
        """Return the fields of a line, and whether the line ends within quotes."""
        if not self.quote or self.quote not in line:
            return [self._trimmed(f) for f in line.split(self.separator)], False
        fields: list[str] = []
        position, is_open = 0, False
        while True:
            start = position
            if self.trim_left:
                while line[start : start + 1] in (" ", "\t") and line[start : start + 1] != self.separator:
                    start += 1
            if line.startswith(self.quote, start):
                field, position, is_open = self._quoted(line, start + 1)
            else:
                end = line.find(self.separator, position)
                position = len(line) if end < 0 else end
                field = self._trimmed(line[min(start, position) : position])
            fields.append(field)
            if position >= len(line):
                return fields, is_open
            position += len(self.separator)

    def _quoted(self, line: str, start: int) -> tuple[str, int, bool]:
        """Return the field after a quote, the position of its end, and whether the line ends within the field."""
        kept: list[str] = []
        position = start
        while position < len(line):
            character = line[position]
            if character == self.escape and line.startswith(self.quote, position + 1):
                kept.append(self.quote)
                position += 2
                continue
            position += 1
            if character == self.quote:
                end = position + (len(line[position:]) - len(line[position:].lstrip(" ")))
                if end == len(line) or line.startswith(self.separator, end):
                    return "".join(kept), end, False
                # If text follows a closing quote, Spark's parser keeps the field unchanged, with its quotes.
                end = line.find(self.separator, position)
                end = len(line) if end < 0 else end
                return self._trimmed(line[start - 1 : end]), end, False
            kept.append(character)
        return "".join(kept), position, True

    def _trimmed(self, field: str) -> str:
        field = field.lstrip() if self.trim_left else field
        return field.rstrip() if self.trim_right else field


def header_names(row: Sequence[str], options: ReaderOptions) -> list[str]:
    """Return the names in a header line. Empty and repeated names get their position (``CSVUtils.makeSafeHeader``)."""
    null = options.text("nullValue", default="")
    lower = [name.lower() for name in row]
    repeated = {name for name in lower if lower.count(name) > 1}
    return [
        f"_c{i}" if name in ("", null) else f"{name}{i}" if name.lower() in repeated else name
        for i, name in enumerate(row)
    ]
