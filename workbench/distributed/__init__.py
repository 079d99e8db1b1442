"""Every rank of a distributed job in one view: what each is doing, who waits for whom, and where their values differ."""
