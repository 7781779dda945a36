"""Files for the quickstart: invented customers of whom 300 are known to have stayed or left, and 10,000 are not.

Writes train.csv, more.csv (without labels) and test.csv: text, numbers, a date, gaps and an identifier, as files are.
"""

import csv
from pathlib import Path

import numpy as np

COLUMNS = ("customer", "age", "city", "plan", "joined", "visits", "spent", "outcome")


def customers(n_rows, seed):
    """Rows of text; younger customers and those who visit little leave more often, and not all of them."""
    rng = np.random.default_rng(seed)
    for number in range(n_rows):
        age, visits = rng.integers(18, 80), rng.poisson(6)
        plan, city = rng.choice(["basic", "plus", "family"], p=[0.6, 0.3, 0.1]), rng.choice(["Oslo", "Rome", "Lima"])
        spent = rng.gamma(2.0, 4.0 * (1 + visits))
        joined = np.datetime64("2019-01-01") + rng.integers(0, 2000)
        risk = 2.2 - 0.025 * age - 0.35 * visits + 1.2 * (plan == "basic") + 0.8 * (city == "Rome") * (age < 40)
        outcome = "left" if rng.random() < 1 / (1 + np.exp(-risk)) else "stayed"
        shown = "" if rng.random() < 0.1 else age
        yield f"C{seed}-{number:05}", shown, city, plan, joined, visits, f"{spent:.2f}", outcome


def write(name, rows, columns=COLUMNS):
    with open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(row[: len(columns)] for row in rows)


write("train.csv", customers(300, seed=1))
write("more.csv", customers(10_000, seed=2), COLUMNS[:-1])
write("test.csv", customers(1_000, seed=3))
print(f"train.csv, more.csv and test.csv are in {Path.cwd()}")
