"""What leaves the notebook: the stand-alone replay, pictures, data for other tools."""
