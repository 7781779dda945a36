"""Runs members as one program: batches on the device, plans, optimiser, checkpoints. Knows no method by name."""
