"""What makes the generated parts of the documentation: a file for what belongs together, all in `command.py`."""
