"""The demo: standard ensembles and nu-ensembles on handwritten digits."""
