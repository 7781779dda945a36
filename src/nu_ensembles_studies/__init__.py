"""Experiments with nu-ensembles: the paper's and our own, declared, resumable, each with a page. Beside the library.

declare/      what is asked for, and the trainings that answer it        [a study's rows, cells and options]
shifts/       labels from one distribution, unlabelled and test rows from another
measure/      from a cell to its numbers: data, training, scores
results/      what was measured: on disk, chosen, averaged, merged, compared with the paper's claims
pages/        what several studies show: tables, figures, curves, maps
experiments/  one file = one study: its rows, its claims, its own sections
demo/         the demo on handwritten digits
run/          from a study's name and options to a folder of results
"""
