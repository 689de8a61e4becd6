"""Text of Hive's SerDes and the values that a real Hive reads from it; tests and ``docs/hive-text.md`` use it.

``tests/contract/hive_text.json`` keeps the values that Hive 2.3 has answered, and ``docs/hive-text.md`` is made of it:
``python -m tests.kit.hive_text_cases`` writes the page, ``--check`` compares it.
"""

from __future__ import annotations

import bz2
import gzip
import json
import sys
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.generated_part import GeneratedPart, check_or_write

if TYPE_CHECKING:
    from collections.abc import Iterator

LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
OPEN_CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
PIPES = "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'"
NESTED = f"{PIPES} COLLECTION ITEMS TERMINATED BY ',' MAP KEYS TERMINATED BY ':'"
ESCAPED = "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' ESCAPED BY '\\\\' COLLECTION ITEMS TERMINATED BY ','"


def lazy(settings: str) -> str:
    """ROW FORMAT of LazySimpleSerDe with settings that have no words of their own."""
    return f"ROW FORMAT SERDE '{LAZY}' WITH SERDEPROPERTIES ('field.delim' = '|', {settings})"


def open_csv(settings: str = "") -> str:
    """ROW FORMAT of OpenCSVSerde."""
    return f"ROW FORMAT SERDE '{OPEN_CSV}'" + (f" WITH SERDEPROPERTIES ({settings})" if settings else "")


@dataclass(frozen=True)
class TextTable:
    """A table of one file, and the expressions that show its values alike in Hive and Spark.

    Attributes:
        columns: As CREATE TABLE has them.
        lines: Of the file.
        shown: The expressions; by default the columns, by their types.
        row_format: The clause.
        properties: Of the table.
        file: Its name, by which it is compressed.
        end: What ends a line.
        encoding: Of the file.
    """

    name: str
    columns: str
    lines: tuple[str, ...]
    shown: tuple[str, ...] = ()
    row_format: str = PIPES
    properties: dict[str, str] = field(default_factory=dict)
    file: str = "rows"
    end: str = "\n"
    encoding: str = "utf-8"

    def create(self, database: str, root: Path) -> str:
        """The statement that makes the table in Hive, over a file that this writes."""
        place = root / self.name
        place.mkdir(parents=True)
        content = "".join(line + self.end for line in self.lines).encode(self.encoding)
        packed = {".gz": gzip.compress, ".bz2": bz2.compress}.get(Path(self.file).suffix, bytes)
        (place / self.file).write_bytes(packed(content))
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in self.properties.items())
        more = f" TBLPROPERTIES ({pairs})" if pairs else ""
        return (
            f"CREATE EXTERNAL TABLE {database}.{self.name} ({self.columns}) {self.row_format} STORED AS TEXTFILE "
            f"LOCATION 'file://{place}'{more}"
        )

    def query(self, table: str) -> str:
        """The query whose rows are compared."""
        shown = self.shown or tuple(_shown(*column.split(" ", 1)) for column in self.columns.split(", "))
        return f"SELECT {', '.join(shown)} FROM {table}"


def _shown(name: str, kind: str) -> str:
    """A text that Hive and Spark write alike of a value, apart from NULL."""
    if kind in ("STRING", "BINARY") or kind.startswith(("CHAR", "VARCHAR")):
        return f"concat('<', hex({name if kind == 'BINARY' else f'cast({name} as string)'}), '>')"
    if kind == "BOOLEAN":
        return f"CASE WHEN {name} THEN 'true' WHEN NOT {name} THEN 'false' END"
    if kind == "FLOAT" or kind.startswith("DECIMAL"):
        return f"cast(cast({name} as double) as string)"
    # Spark keeps microseconds.
    return f"substr(cast({name} as string), 1, 26)" if kind == "TIMESTAMP" else f"cast({name} as string)"


_WHOLE = (
    "1", "+1", "-1", " 1", "1 ", "\t1", "3.7", "-3.7", "1.", ".5", "1e3", "007", "0x1F", "", "abc", "1,000", "1L",
    "\\N", "NULL", "null", "127", "128", "32768", "2147483647", "2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "1_000", "NaN", "--1", "+", "\u0661",
)  # fmt: skip
_FRACTIONS = (
    "1", "1.5", " 1.5", "1.5 ", "+1.5", ".5", "5.", "1e3", "1E-3", "1.5f", "1.5d", "0x1p3", "NaN", "nan", "Infinity",
    "-Infinity", "inf", "1e999", "-1e999", "1,5", "1,000.5", "", "\\N", "abc", "-0.0", "1e", "1.7976931348623157E308",
)  # fmt: skip
_DECIMALS = (
    "1", "1.5", "1.555", "1.545", "-1.555", "1,000", " 1.5", "1.5 ", "+1.5", "1e2", "1E-1", "9999.99", "9999.995",
    "10000", "12345.67", ".5", "5.", "", "\\N", "abc", "NaN", "1.50000", "0x1F", "1d",
)  # fmt: skip
_DATES = (
    "2021-01-02", "2021-1-2", "2021-01-02 10:11:12", "2021-01-02T10:11:12", "2021/01/02", "20210102", "2021-13-01",
    "2021-02-30", "2021-02-32", " 2021-01-02", "2021-01-02 ", "", "\\N", "0001-01-01", "9999-12-31", "1582-10-04",
    "1582-10-15", "1500-03-01", "21-01-02", "2021-01", "abc", "10000-01-01", "2021-01-02x",
)  # fmt: skip
_TIMES = (
    "2021-01-02 10:11:12", "2021-01-02 10:11:12.5", "2021-01-02 10:11:12.123456", "2021-01-02 10:11:12.1234567",
    "2021-1-2 3:4:5", "2021-01-02", "2021-01-02 10:11", "2021-01-02T10:11:12", "2021-01-02 10:11:12Z",
    "2021-01-02 10:11:12+01:00", "2021-01-02 25:00:00", "2021-01-02 10:61:00", "2021-02-30 00:00:00",
    "2021-13-01 00:00:00", " 2021-01-02 10:11:12", "2021-01-02 10:11:12 ", "1609582272", "1609582272.5", "", "\\N",
    "0001-01-01 00:00:00", "9999-12-31 23:59:59", "1900-01-01 00:00:00", "2021-01-02 10:11:12.", "2021-01-02 -1:00:00",
    "2021-01-02 10:11:12.1234567891", "abc",
)  # fmt: skip
_BOOLEANS = ("true", "TRUE", "True", "false", "FALSE", "t", "T", "f", "F", "1", "0", "yes", "no", " true", "", "\\N")
_TEXTS = ("a", "", " a ", "\\N", "NULL", "\\n", '"a"', "é€𝄞", "\t", "\\\\N", "a\\|b")
_BYTES = ("YWJj", "YWI=", "YQ==", "abc", "", "\\N", "Y W J j", "ÿ", "a-b_", "YWJjZA")

TABLES = (
    *(
        TextTable(f"t_{kind.lower()}", f"v {kind}", _WHOLE)
        for kind in ("TINYINT", "SMALLINT", "INT", "BIGINT")
    ),
    TextTable("t_float", "v FLOAT", _FRACTIONS),
    TextTable("t_double", "v DOUBLE", _FRACTIONS),
    TextTable("t_decimal", "v DECIMAL(6,2)", _DECIMALS),
    TextTable("t_wide", "v DECIMAL(38,0)", ("1", "9" * 38, "9" * 39, "1.5", "2.5", "1e37", "1e38"),
              ("v",)),
    TextTable("t_date", "v DATE", _DATES),
    TextTable("t_timestamp", "v TIMESTAMP", _TIMES),
    TextTable("t_boolean", "v BOOLEAN", _BOOLEANS),
    TextTable("t_string", "v STRING", _TEXTS),
    TextTable("t_varchar", "v VARCHAR(4)", ("abcdef", "abcd", "abc ", "ab", "", "\\N", "é€𝄞éa")),
    # Spark pads a CHAR that it shows, and Hive does not.
    TextTable("t_char", "v CHAR(4)", ("abcdef", "abcd", "ab  ", "ab", "", "\\N"), ("concat('<', rtrim(v), '>')",)),
    TextTable("t_binary", "v BINARY", _BYTES),
    TextTable(
        "missing", "a INT, b STRING, c INT", ("1|x|2", "1|x", "1", "", "|", "1|x|2|more", "||", "  ", "1||2", "\\N|\\N")
    ),
    TextTable("null_format", "a INT, b STRING", ("1|x", "|", "nil|nil", "\\N|\\N"), (),
              lazy("'serialization.null.format' = 'nil'")),
    TextTable("null_empty", "a INT, b STRING", ("1|x", "|", "2|"), (), lazy("'serialization.null.format' = ''")),
    TextTable("escaped", "a STRING, b STRING, c ARRAY<STRING>",
              ("a\\|b|x|p\\,q,r", "a\\\\|b|", "\\n|\\N|", "a\\", "\\\\N|x"),
              ("concat('<', hex(a), '>')", "concat('<', hex(b), '>')", "size(c)", "hex(c[0])"), ESCAPED),
    TextTable(
        "nested",
        "a ARRAY<INT>, m MAP<STRING,INT>, s STRUCT<x:INT,y:STRING>",
        ("1,2|k:1,l:2|7,y", "||", "\\N|\\N|\\N", "1,x,\\N|k:,l|7", "1|k:1,k:2|7,y,z", ",|:|,", "3"),
        ("size(a)", "a[0]", "a[1]", "a[2]", "size(m)", "m['k']", "m['l']", "s.x", "s.y", "a IS NULL", "m IS NULL",
         "s IS NULL"),
        NESTED,
    ),
    TextTable(
        "deep",
        "a ARRAY<ARRAY<INT>>, m MAP<STRING,ARRAY<INT>>, s STRUCT<x:STRUCT<y:DATE,z:TIMESTAMP>,w:DECIMAL(4,1)>",
        ("1:2,3:4|k:1\x042|2021-01-02:2021-01-02 10\x0411\x0412,1.25", "\\N|k:|:,x"),
        ("size(a)", "a[0][1]", "a[1][0]", "m['k'][1]", "cast(s.x.y as string)", "cast(s.x.z as string)",
         "cast(cast(s.w as double) as string)"),
        NESTED,
    ),
    TextTable("last_takes_rest", "a INT, b STRING", ("1|x|y|z", "1|x", "1"), (),
              lazy("'serialization.last.column.takes.rest' = 'true'")),
    TextTable("latin", "a STRING, b INT", ("é|1", "ü|x"), (),
              lazy("'serialization.encoding' = 'ISO-8859-1'"), encoding="latin-1"),
    TextTable("time_formats", "v TIMESTAMP",
              ("2021/01/02 10", "2021-01-02 10:11:12", "2021-01-02T10:11:12.5", "02.01.2021", ""),
              (), lazy("'timestamp.formats' = 'yyyy/MM/dd HH,dd.MM.yyyy'")),
    TextTable("numbered", "a INT, b STRING", ("1\tx",), (),
              f"ROW FORMAT SERDE '{LAZY}' WITH SERDEPROPERTIES ('field.delim' = '9')"),
    TextTable("several", "a INT, b STRING", ("1||x", "1|x"), (), lazy("'line.delim' = '\\n'").replace("'|'", "'||'")),
    TextTable("crlf", "a INT, b STRING", ("1|x", "2|", "", "3|y"), end="\r\n"),
    TextTable("bare_cr", "a INT, b STRING", ("1|x", "2|y\n3|z"), end="\r"),
    TextTable("header", "a INT, b STRING", ("a|b", "1|x", "2|y"), properties={"skip.header.line.count": "1"}),
    TextTable("two_headers", "a INT, b STRING", ("a|b", "--|--", "1|x"), properties={"skip.header.line.count": "2"}),
    TextTable("footer", "a INT, b STRING", ("h", "1|x", "2|y", "sum|3"),
              properties={"skip.header.line.count": "1", "skip.footer.line.count": "1"}),
    TextTable("only_header", "a INT, b STRING", ("a|b",), properties={"skip.header.line.count": "2"}),
    TextTable("gzip", "a INT, b STRING", ("1|x", "3.7|y"), file="rows.gz"),
    TextTable("bzip2", "a INT, b STRING", ("1|x", "3.7|y"), file="rows.bz2"),
    TextTable("marked", "a STRING, b INT", ("\ufeffx|1", "y|2")),
    TextTable(
        "quoted", "a STRING, b STRING, c STRING",
        ('1,"Smith, ""Bob"" Jr.",Oslo', '"",,x', "a,b", "a,b,c,d", '"a\\"b",\\"c,d\\\\e', '"open,2', 'rest",3', "",
         ' "x" ,y,z', "'q',NULL,\\N", 'a"b"c,d,e', '"a"b,c,d', "\t,é,€"),
        (), open_csv(),
    ),
    TextTable("quoted_types", "a INT, b DATE, c BOOLEAN", ('"1","2021-01-02","true"', "3.7,abc,", "x"),
              tuple(f"concat('<', {name}, '>')" for name in "abc"), open_csv()),
    TextTable("quoted_chars", "a STRING, b STRING", ("'a;b';c", "'a''b';x", "'a!'b';y"), (),
              open_csv("'separatorChar' = ';', 'quoteChar' = '\\'', 'escapeChar' = '!'")),
    TextTable("quoted_escape", "a STRING, b STRING", ('"a""b",c', '"a\\"b",c', "a\\b,c"), (),
              open_csv("'escapeChar' = '\\042'")),
    TextTable("quoted_header", "a STRING, b STRING", ("a,b", "1,2"), (), open_csv(), {"skip.header.line.count": "1"}),
)  # fmt: skip

RESULTS = Path(__file__).parents[1] / "contract" / "hive_text.json"
PAGE = Path(__file__).parents[2] / "docs" / "hive-text.md"


def expected() -> dict[str, list[list[str]]]:
    """The rows that Hive 2.3 gives of each table, NULL as ``NULL``."""
    kept: dict[str, list[list[str]]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return kept


def page_lines(found: dict[str, list[list[str]]]) -> Iterator[str]:
    """The tables of the page. Tables of one column with the same lines are one table, with a column for each type."""
    for _, group in groupby(TABLES, lambda t: t.lines if t.columns.startswith("v ") else t.name):
        tables = tuple(group)
        yield from _lines_of(tables[0], found) if len(tables) == 1 else _lines_by_type(tables, found)


def _lines_by_type(tables: tuple[TextTable, ...], found: dict[str, list[list[str]]]) -> Iterator[str]:
    types = [table.columns.removeprefix("v ") for table in tables]
    yield f"### {', '.join(f'`{table.name}`' for table in tables)}: {', '.join(types)}"
    yield ""
    yield f"| line | {' | '.join(types)} |"
    yield f"|---|{'---|' * len(types)}"
    for line, *rows in zip(tables[0].lines, *(found[table.name] for table in tables), strict=True):
        yield f"| {_code(line)} | {' | '.join(', '.join(map(_value, row)) for row in rows)} |"
    yield ""


def _lines_of(table: TextTable, found: dict[str, list[list[str]]]) -> Iterator[str]:
    yield f"### `{table.name}`: `{table.columns}`"
    yield ""
    if table.row_format != PIPES or table.properties or table.file != "rows" or table.end != "\n":
        about = [table.row_format, *(f"{name} = {value}" for name, value in table.properties.items())]
        about += [f"file {table.file}"] * (table.file != "rows") + [f"lines end with {table.end!r}"] * (
            table.end != "\n"
        )
        yield f"Table: `{'; '.join(about)}`"
        yield ""
    if table.row_format in (NESTED, ESCAPED):
        yield f"The values are those of {', '.join(f'`{expression}`' for expression in table.shown)}."
        yield ""
    rows = found[table.name]
    if len(rows) == len(table.lines) and "\n" not in "".join(table.lines):
        yield "| line | values read |"
        yield "|---|---|"
        for line, row in zip(table.lines, rows, strict=True):
            yield f"| {_code(line)} | {', '.join(map(_value, row))} |"
    else:
        yield f"File: {_code(table.end.join(table.lines))}"
        yield ""
        shown = "; ".join("(" + ", ".join(map(_value, row)) + ")" for row in rows)
        yield f"Rows read: {shown or 'none'}"
    yield ""


def _value(text: str) -> str:
    if text.startswith("<") and text.endswith(">"):
        inside = text[1:-1]
        try:
            return _code(bytes.fromhex(inside).decode("utf-8")) if inside else "`''`"
        except ValueError:
            return _code(inside) if not _is_hex(inside) else f"bytes {inside}"
    return "NULL" if text == "NULL" else _code(text)


def _is_hex(text: str) -> bool:
    return len(text) % 2 == 0 and all(c in "0123456789ABCDEF" for c in text)


def _code(text: str) -> str:
    if text == "":
        return "(empty)"
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if "|" in shown:
        # The site's dialect reads a backslash before an escaped bar otherwise than CommonMark.
        return f"<code>{''.join(c if c.isalnum() or c in ' ,' else f'&#{ord(c)};' for c in shown)}</code>"
    mark = "``" if "`" in shown else "`"
    return f"{mark}{shown}{mark}"


PART = GeneratedPart(PAGE, RESULTS, "python -m tests.kit.hive_text_cases", "tests.kit.hive_text_cases", {}, page_lines)

if __name__ == "__main__":
    sys.exit(check_or_write(PART, sys.argv[1:]))
