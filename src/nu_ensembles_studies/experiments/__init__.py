"""One file is one study: its rows, its claims, and the sections that it alone shows."""
