"""The back end of a view: one recording, its passes, any number of clients, and the dispatch of their requests."""
