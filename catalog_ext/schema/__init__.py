"""Schemas read from files, as Spark itself infers them."""
