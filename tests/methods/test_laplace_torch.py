"""Our Gaussian around a last layer is that of laplace-torch on the same weights (slow; needs torch, laplace-torch)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nu_ensembles.methods.laplace_posterior import LastLayerPosterior

N, F, C = 60, 5, 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("structure", "theirs"), [("full", "full"), ("kronecker", "kron")])
def test_evidence_prior_and_probit_predictive_are_those_of_laplace_torch(structure: Any, theirs: str) -> None:
    torch = pytest.importorskip("torch")
    laplace = pytest.importorskip("laplace")
    data = pytest.importorskip("torch.utils.data")

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        network = torch.nn.Sequential(torch.nn.Linear(3, F), torch.nn.Tanh(), torch.nn.Linear(F, C))
        x, y = torch.randn(N, 3), torch.randint(C, (N,))
        reference = laplace.Laplace(network, "classification", "last_layer", theirs)
        reference.fit(data.DataLoader(data.TensorDataset(x, y), batch_size=N))
        with torch.no_grad():
            features = network[1](network[0](x)).numpy()
            logits = network(x).numpy()
            last: Any = network[2]
            layer = np.concatenate([last.weight.numpy(), last.bias.numpy()[:, None]], axis=1)
        found = LastLayerPosterior(layer, features, logits, y.numpy(), np.ones(N), structure)
        for delta in (0.1, 1.0, 10.0):
            evidence = float(reference.log_marginal_likelihood(prior_precision=torch.tensor([delta])))
            # laplace-torch leaves out the constants that ours cancels, and so do we.
            assert found.log_evidence(delta) == pytest.approx(evidence, rel=1e-6, abs=1e-6)
        reference.prior_precision = torch.tensor([2.0])
        found.prior_precision = 2.0
        with_one = np.concatenate([features, np.ones((N, 1))], axis=1)
        variance = np.einsum("bf,cfg,bg->bc", with_one, found.class_covariances(), with_one)
        scaled = logits / np.sqrt(1 + np.pi / 8 * variance)
        ours = np.exp(scaled) / np.exp(scaled).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(ours, reference(x, link_approx="probit").detach().numpy(), atol=1e-6)
    finally:
        torch.set_default_dtype(torch.float32)
