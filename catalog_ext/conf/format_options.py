"""The option names of Spark's own formats. A misspelled one is refused here, because Spark ignores it silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.runtime.wording import NEARLY, nearest

if TYPE_CHECKING:
    from collections.abc import Collection


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OF_FILES = _words("""
    archivePathFilter basePath format ignoreCorruptFiles ignoredPathSegmentRegex ignoreMissingFiles modifiedAfter
    modifiedBefore path pathGlobFilter paths recursiveFileLookup schema timeZone
""")
"""Those of every format, and of reading and writing as such."""

_OF_TEXTS = _words("""
    charset codec compression encoding lineSep locale
""")
_OF_RECORDS = _OF_TEXTS | _words("""
    columnNameOfCorruptRecord columnPruning dateFormat enableDateTimeParsingFallback mode multiLine
    preferDate samplingRatio singleVariantColumn timeFormat timestampFormat timestampNTZFormat
""")
OF_FORMAT: dict[str, frozenset[str]] = {
    "csv": _OF_RECORDS
    | _words("""
    charToEscapeQuoteEscaping comment delimiter emptyValue enforceSchema escape escapeQuotes extension header
    ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace inferSchema inputBufferSize maxCharsPerColumn
    maxColumns maxMalformedLogPerPartition nanValue negativeInf nullValue positiveInf quote quoteAll sep
    unescapedQuoteHandling
"""),
    "json": _OF_RECORDS
    | _words("""
    allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
    allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull explodeEmbeddedArray
    ignoreNullFields inferTimestamp maxNestingDepth maxNumLen maxStringLen prefersDecimal pretty
    primitivesAsString sortKeys useUnsafeRow writeNonAsciiCharacterAsCodePoint writeNullIfWithDefaultValue
"""),
    "text": _OF_TEXTS | {"wholetext"},
    "parquet": _words("""
    compression datetimeRebaseMode int96RebaseMode mergeSchema parquet.compression variantReadInfo
"""),
    "orc": _words("""
    compression mergeSchema orc.compress
"""),
}
"""By format, as Spark 4 has them (``CSVOptions`` and others)."""

OF_SPARK = OF_FILES.union(
    *OF_FORMAT.values(),
    # Options of reads, writes and streams of any source, which a job may pass to several sources.
    _words("""
    checkpointLocation cleanSource failOnDataLoss fileNameOnly ignoreChanges ignoreDeletes latestFirst
    maxFileAge maxRecordsPerFile outputMode overwriteSchema partitionOverwriteMode queryName
    readChangeFeed replaceWhere sourceArchiveDir startingTimestamp timestampAsOf versionAsOf
"""),
)


def check_format_options(names: Collection[str], file_format: str, table: str) -> None:
    """Return if no option that a table is made with is nearly called as one of its format.

    A name with a dot is Hadoop's or a library's, which are not known here.

    Raises:
        InvalidConfigurationError: One is: it would be without effect.
    """
    known = OF_FILES | OF_FORMAT.get(file_format, frozenset())
    lower = {name.lower() for name in known}
    for name in names:
        near = None if "." in name or name.lower() in lower else nearest(name, known, NEARLY)
        if near is not None:
            raise InvalidConfigurationError(
                f"{name[:60]!r} is no option of the format {file_format} that Spark has, and would change nothing in "
                f"table {table}. Did you mean {near!r}?",
                {"key": name[:60], "table": table},
            )
