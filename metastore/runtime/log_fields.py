"""What a line of the log says besides its text, for those who write lines as JSON."""

FIELDS = "catalog_ext_fields"
"""The attribute of a log record (``extra``) that maps names to texts and numbers."""
