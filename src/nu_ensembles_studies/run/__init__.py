"""From the name of a study and its options to a folder of results."""
