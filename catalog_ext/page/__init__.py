"""The page: what the index knows, for people who look at it in a browser (``docs/design/11-page.md``)."""
