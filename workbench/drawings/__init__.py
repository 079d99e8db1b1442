"""Still pictures of a graph: the selection of boxes, their layout, and output as SVG or text."""
