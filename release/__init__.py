"""What only the making of a release needs; nothing of it is in the wheel."""
