"""The flight recorder: it keeps the last steps of a training, writes them to a file when something goes wrong, and repeats them."""
