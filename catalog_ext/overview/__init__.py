"""Summaries of the index for people: maps, numbers and states, for the page and for notebooks."""
