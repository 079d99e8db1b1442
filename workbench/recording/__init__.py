"""Records what ran: the recorder, its table of ops, which memory they use, and where they are in the user's code."""
