# SPDX-License-Identifier: Apache-2.0
"""A training step of PyTorch, traced with its backward pass and its optimizer, for two machines."""

import pytest

FIRST_LAYER = {"w1_1", "x_1", "detach", "mm", "relu", "detach_3", "detach_8", "threshold_backward_1", "t_4", "mm_7",
               "mul", "sub"}
"""Nodes of a traced training step that belong to the first of three layers."""


def import_torch():
    """PyTorch with a fixed seed and one thread; the test is skipped where it is not installed."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; pip install 'dmace[torch]' installs it")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    return torch


def machine_of(node):
    """The first layer on machine 0, the others on machine 1."""
    return 0 if node.name in FIRST_LAYER else 1


def traced_step(torch):
    """A training step with backward pass and SGD, as operations of ATen; weights; and a function that makes batches."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def train(w1, w2, w3, x, y):
        weights = [weight.detach().requires_grad_() for weight in (w1, w2, w3)]
        hidden = torch.relu(torch.relu(x @ weights[0]) @ weights[1])
        loss = torch.nn.functional.cross_entropy(hidden @ weights[2], y)
        gradients = torch.autograd.grad(loss, weights)
        return [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)] + [loss]

    def batch(rows):
        return torch.randn(rows, 64), torch.randint(0, 10, (rows,))

    weights = [torch.randn(shape) * 0.1 for shape in ((64, 32), (32, 32), (32, 10))]
    return make_fx(train, tracing_mode="symbolic")(*weights, *batch(16)), weights, batch


def same(torch, found, expected):
    """Equal bit for bit."""
    return found.dtype == expected.dtype and torch.equal(found, expected)
