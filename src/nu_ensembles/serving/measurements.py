"""What `/metrics` tells, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter

# Upper bounds of the histogram of latencies, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Measurements:
    """Counts of requests by their status, and how long those to `/predict` took."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.below: Counter[float] = Counter()
        self.seconds = 0.0

    def add(self, status: int, seconds: float) -> None:
        self.requests[status] += 1
        self.seconds += seconds
        for bound in BOUNDS:
            if seconds <= bound:
                self.below[bound] += 1

    def text(self, n_batches: int, n_rows: int) -> str:
        n_requests = sum(self.requests.values())
        lines = [
            "# HELP nu_ensembles_requests_total Requests to /predict by HTTP status.",
            "# TYPE nu_ensembles_requests_total counter",
            *(
                f'nu_ensembles_requests_total{{status="{status}"}} {count}'
                for status, count in sorted(self.requests.items())
            ),
            "# HELP nu_ensembles_request_seconds Time to answer a request to /predict.",
            "# TYPE nu_ensembles_request_seconds histogram",
            *(f'nu_ensembles_request_seconds_bucket{{le="{bound}"}} {self.below[bound]}' for bound in BOUNDS),
            f'nu_ensembles_request_seconds_bucket{{le="+Inf"}} {n_requests}',
            f"nu_ensembles_request_seconds_sum {self.seconds:.6f}",
            f"nu_ensembles_request_seconds_count {n_requests}",
            "# HELP nu_ensembles_rows_total Rows that were computed.",
            "# TYPE nu_ensembles_rows_total counter",
            f"nu_ensembles_rows_total {n_rows}",
            "# HELP nu_ensembles_batches_total Batches that they were computed in.",
            "# TYPE nu_ensembles_batches_total counter",
            f"nu_ensembles_batches_total {n_batches}",
        ]
        return "\n".join(lines) + "\n"
