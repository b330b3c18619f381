# SPDX-License-Identifier: Apache-2.0
"""Small models of plain PyTorch in the forms that real ones have, for torch.compile's tests.

In use:

    model, inputs = MODELS["llama"]
    model().eval()(*inputs(batch=2, length=7))
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, HEADS = 50, 32, 4


def tokens(batch, length):
    return (torch.randint(0, WORDS, (batch, length)),)


def masked_tokens(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[: batch - 1, length // 2 :] = 0
    return (*tokens(batch, length), mask)


def images(batch, length):
    return (torch.randn(batch, 3, 16, 16 + 8 * (length % 2)),)


def heads(x, count=HEADS):
    return x.view(*x.shape[:2], count, -1).transpose(1, 2)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, mask):
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.first(x + self.out(seen.transpose(1, 2).flatten(2)))
        return self.second(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Token, place and type embeddings, an additive mask, a pooler."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(40, WIDTH)
        self.types, self.norm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH)
        self.layers, self.pooler = nn.ModuleList(BertLayer() for _ in range(2)), nn.Linear(32, 32)

    def forward(self, ids, mask):
        places = torch.arange(ids.shape[1])
        x = self.words(ids) + self.places(places)[None] + self.types(torch.zeros_like(ids))
        added = (1.0 - mask[:, None, None, :].float()) * -1e9
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, added)
        return x, torch.tanh(self.pooler(x[:, 0])), (x * mask[..., None]).sum(1)


class Gpt(nn.Module):
    """One product for queries, keys and values, and attention as two products and a softmax."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(40, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(5))
        self.joined = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.up = nn.ModuleList(nn.Linear(WIDTH, 64) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(64, WIDTH) for _ in range(2))
        self.register_buffer("mask", torch.ones(40, 40, dtype=torch.bool).tril())

    def forward(self, ids):
        length = ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(length))
        for at in range(2):
            q, k, v = map(heads, self.joined[at](self.norms[2 * at](x)).split(WIDTH, -1))
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            scores = scores.masked_fill(~self.mask[:length, :length], -math.inf)
            x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
            h = self.norms[2 * at + 1](x)
            x = x + self.down[at](F.gelu(self.up[at](h), approximate="tanh"))
        return F.log_softmax(F.linear(self.norms[4](x), self.words.weight), -1)


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Llama(nn.Module):
    """RMS norms, rotary embeddings, grouped heads, causal attention, a gated middle."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList()
        for _ in range(2):
            shapes = {"q": (32, 32), "k": (32, 16), "v": (32, 16), "out": (32, 32),
                      "gate": (32, 64), "up": (32, 64), "down": (64, 32)}  # fmt: skip
            layer = {name: nn.Linear(*shape, bias=False) for name, shape in shapes.items()}
            self.layers.append(nn.ModuleDict({**layer, "first": RmsNorm(), "second": RmsNorm()}))
        self.norm = RmsNorm()

    def forward(self, ids):
        x = self.words(ids)
        angles = torch.arange(ids.shape[1])[:, None] / 100 ** (torch.arange(0, 8, 2) / 8)
        cos, sin = (torch.cat([f(angles)] * 2, -1) for f in (torch.cos, torch.sin))

        def turned(y):
            return y * cos + torch.cat([-y[..., 4:], y[..., :4]], -1) * sin

        for layer in self.layers:
            h = layer["first"](x)
            q, k, v = heads(layer["q"](h)), heads(layer["k"](h), 2), heads(layer["v"](h), 2)
            k, v = (one.repeat_interleave(2, 1) for one in (turned(k), v))
            seen = F.scaled_dot_product_attention(turned(q), k, v, is_causal=True)
            x = x + layer["out"](seen.transpose(1, 2).flatten(2))
            h = layer["second"](x)
            x = x + layer["down"](F.silu(layer["gate"](h)) * layer["up"](h))
        return self.norm(x)


class T5(nn.Module):
    """Places as buckets of distances, which a table turns into a bias of scores."""

    def __init__(self):
        super().__init__()
        self.words, self.bias = nn.Embedding(WORDS, WIDTH), nn.Embedding(8, HEADS)
        self.joined, self.out = nn.Linear(WIDTH, 3 * WIDTH, False), nn.Linear(WIDTH, WIDTH, False)
        self.norm, self.last = RmsNorm(), RmsNorm()

    def forward(self, ids):
        x, places = self.words(ids), torch.arange(ids.shape[1])
        far = places[None] - places[:, None]
        buckets = torch.where(far > 0, 4, 0) + far.abs().clamp(max=3)
        bias = self.bias(buckets).permute(2, 0, 1)[None]
        q, k, v = map(heads, self.joined(self.norm(x)).chunk(3, -1))
        scores = q @ k.transpose(3, 2) + bias
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        return self.last(x + self.out((weights @ v).transpose(1, 2).flatten(2)))


class Vit(nn.Module):
    """Patches by a convolution, a class token, attention of PyTorch's own layer."""

    def __init__(self):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, WIDTH, 8, 8), nn.Parameter(torch.randn(1, 1, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True,
                                                norm_first=True)  # fmt: skip
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return self.head(self.layer(x)[:, 0])


class Convolutions(nn.Module):
    """Convolutions with batch norms, a residual, pooling."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(8)])
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norms[0](self.first(x)))
        x = F.relu(self.norms[1](self.second(x)) + x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


MODELS = {
    "bert": (Bert, masked_tokens),
    "gpt": (Gpt, tokens),
    "llama": (Llama, tokens),
    "t5": (T5, tokens),
    "vit": (Vit, images),
    "convolutions": (Convolutions, images),
}
