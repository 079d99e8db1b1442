"""Where the time goes: by line, op and module."""
