"""The page: the index in a browser (``docs/design/11-page.md``)."""
