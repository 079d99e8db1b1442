"""What follows a training: its loop, its history, its curves, a bar around it."""
