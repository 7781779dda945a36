"""How long work lives: it begins, is kept on the way, saved, finished, and cleans up after itself.

The same for fits, searches and studies. Whoever works in a folder is alone there (`folder.py`); what was done is kept
as a state from which the same work goes on (`state.py`); a signal is held back until that is consistent
(`interrupts.py`). What comes out is on disk before anything that led to it is removed.
Import from the files: the command line needs `interrupts.py` before anything is loaded.
"""
