# SPDX-License-Identifier: Apache-2.0
"""The gated delta rule."""

import torch


def delta_arguments(lengths, key_heads, heads, depth=128, width=128):
    """Arguments of gated_delta_rule, f32, for sequences of these lengths."""
    t, ends = sum(lengths), torch.tensor([0, *lengths]).cumsum(0)
    return [
        torch.randn(t, key_heads, depth), torch.randn(t, key_heads, depth),
        torch.randn(t, heads, width), torch.rand(t, heads), -torch.rand(t, heads) / 4, ends,
        torch.randn(len(lengths), heads, depth, width),
    ]  # fmt: skip


def unit(v):
    return v * torch.rsqrt(v.square().sum(-1, keepdim=True) + 1e-6)


def _chunks(x, chunk):
    """[heads, chunks, chunk, ...] of [t, heads, ...], filled up with zeros."""
    x = x.transpose(0, 1)
    missing = -x.shape[1] % chunk
    x = torch.cat([x, x.new_zeros(len(x), missing, *x.shape[2:])], 1)
    return x.reshape(len(x), -1, chunk, *x.shape[2:])


def _pairs(q, k, v, beta, g):
    """The parts of gated_delta_rule that do not need the state, of all chunks at once."""
    total, q = g.cumsum(-1)[..., None], q * q.shape[-1] ** -0.5
    within = torch.ones(g.shape[-1], g.shape[-1], dtype=torch.bool).tril()
    decay = (total - total.mT).masked_fill(~within, -torch.inf).exp()
    low = (beta * (k @ k.mT) * decay).tril(-1)
    right = torch.cat([beta * v, beta * k * total.exp()], -1)
    right = torch.linalg.solve_triangular(low, right, upper=False, unitriangular=True)
    last = total[:, :, -1:]
    left = (k * (last - total).exp()).mT
    return right, q * total.exp(), (q @ k.mT) * decay, left, last.exp()


def _step(state, right, q, scores, left, keep):
    d = right[..., : state.shape[-1]] - right[..., state.shape[-1] :] @ state
    return q @ state + scores @ d, state * keep + left @ d


def gated_delta_rule(
    query, key, value, beta, g, cu_lengths, states, chunk=64, pairs=_pairs, step=_step
):
    """One sequence, in chunks: those of a head at once up to the state, then one by one."""
    t, group = len(value), value.shape[1] // key.shape[1]
    q, k = (unit(x).repeat_interleave(group, 1) for x in (query, key))
    parts = pairs(*(_chunks(x, chunk) for x in (q, k, value, beta[..., None], g)))
    state, outs = states[0], []
    for c in range(parts[0].shape[1]):
        out, state = step(state, *(x[:, c] for x in parts))
        outs.append(out)
    states[0] = state
    return torch.cat(outs, 1)[:, :t].transpose(0, 1)


def compiled_delta_rule(**options):
    """gated_delta_rule with its two parts compiled: all chunks at once would take minutes."""
    parts = {
        "pairs": torch.compile(_pairs, dynamic=False, options=options),
        "step": torch.compile(_step, dynamic=False, options=options),
    }
    return lambda *arguments: gated_delta_rule(*arguments, **parts)


def delta_token(query, key, value, beta, g, cu_lengths, states):
    """One token of one sequence."""
    group = value.shape[1] // key.shape[1]
    q, k = (unit(x[0]).repeat_interleave(group, 0)[:, None] for x in (query, key))
    state = states[0] * g[0].exp()[:, None, None]
    d = (value[0][:, None] - k @ state) * beta[0][:, None, None]
    states[0] = state + k.mT * d
    return (q @ states[0]).transpose(0, 1) * q.shape[-1] ** -0.5
