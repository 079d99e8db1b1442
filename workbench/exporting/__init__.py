"""Export of a session: the stand-alone HTML replay, pictures, and data for other tools."""
