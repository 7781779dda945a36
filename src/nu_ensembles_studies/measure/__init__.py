"""From a cell to its numbers: its data, its training, and what is measured."""
