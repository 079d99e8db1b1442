"""Still pictures of a graph: what of it is drawn, where it stands, and as what."""
