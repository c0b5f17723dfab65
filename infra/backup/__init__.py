"""The whole store in one file, taken while everything runs, and put back into an empty one."""
