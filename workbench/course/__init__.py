"""The course: its lessons in the editions that a class needs."""
