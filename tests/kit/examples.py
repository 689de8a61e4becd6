"""The number of examples that hypothesis tries; ``make unit`` tries fewer."""

from __future__ import annotations

from hypothesis import settings

_THOROUGH, _QUICK = 100, 15

# The blob makes a failure come again elsewhere: hypothesis chooses its examples by a seed of its own.
settings.register_profile("thorough", max_examples=_THOROUGH, deadline=None, print_blob=True)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=_QUICK)
settings.load_profile("thorough")


def examples(number: int) -> int:
    """The share of so many examples that the profile asks for; ``--hypothesis-profile`` chooses it."""
    return max(1, number * settings().max_examples // _THOROUGH)
