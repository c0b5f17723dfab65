"""What terminals showed, at any sequence of the log."""
