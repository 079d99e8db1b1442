"""The graph of a recording: nodes, edges, groups and times, and its still pictures."""
