"""The option names of Spark's own formats, to detect misspelled names, which Spark ignores silently."""

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
"""Options of every file format, and of reads and writes in general."""

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
"""Options by format, from the sources of Spark 4 (``CSVOptions`` and others)."""

OF_SPARK = OF_FILES.union(
    *OF_FORMAT.values(),
    # Options of reads, writes and streams of any source: a job may pass the same options to several sources.
    _words("""
    checkpointLocation cleanSource failOnDataLoss fileNameOnly ignoreChanges ignoreDeletes latestFirst
    maxFileAge maxRecordsPerFile outputMode overwriteSchema partitionOverwriteMode queryName
    readChangeFeed replaceWhere sourceArchiveDir startingTimestamp timestampAsOf versionAsOf
"""),
)


def check_format_options(names: Collection[str], file_format: str, table: str) -> None:
    """Check that no option of a new table looks like a misspelled option of its format.

    A name with a dot is an option of Hadoop or of a library, which are not checked.

    Raises:
        InvalidConfigurationError: An option looks misspelled, and would have no effect.
    """
    known = OF_FILES | OF_FORMAT.get(file_format, frozenset())
    # An option of another format is accepted: a job may pass the same options for several formats.
    lower, others = {option.lower() for option in known}, {option.lower() for option in OF_SPARK}
    for option in names:
        near = None if "." in option or option.lower() in lower else nearest(option, known, NEARLY)
        if near is None and "." not in option and option.lower() not in others:
            near = nearest(option, OF_SPARK, NEARLY)
        if near is not None:
            raise InvalidConfigurationError(
                f"{option[:60]!r} is no option of the format {file_format} that Spark has, and would change nothing in "
                f"table {table}. Did you mean {near!r}?",
                {"key": option[:60], "table": table},
            )
