"""Tools that follow a training run: a controllable loop, its history, its curves and a progress bar."""
