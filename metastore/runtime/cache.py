"""The folder of what is compiled and fetched, in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "CATALOG_EXT_CACHE"
"""The environment variable that names another folder for what is fetched and compiled."""


def cache_folder() -> Path:
    """Return the folder in the user's cache, or the one that ``CATALOG_EXT_CACHE`` names; it may not exist yet."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("catalog-ext"))
