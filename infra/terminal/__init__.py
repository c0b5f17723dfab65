"""A terminal that nobody sits at: bytes of a program in, the lines of its screen out."""
