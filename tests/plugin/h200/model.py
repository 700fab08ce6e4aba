"""Qwen3's shape in plain PyTorch, with random weights: what a decoder does, and nothing of a library's own."""

import torch
import torch.nn.functional as F
from torch import nn

# Qwen/Qwen3-0.6B, config.json
QWEN = {"hidden": 1024, "layers": 28, "heads": 16, "groups": 8, "head": 128, "inner": 3072, "words": 151936}
# The same calls over next to no data: what remains is the time of the host.
SMALL = {"hidden": 64, "layers": 28, "heads": 4, "groups": 2, "head": 16, "inner": 128, "words": 256}


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.groups, self.head = c["heads"], c["groups"], c["head"]
        inner = self.heads * self.head
        self.before, self.after = Norm(c["hidden"]), Norm(c["hidden"])
        self.q, self.k, self.v = (
            nn.Linear(c["hidden"], n * self.head, bias=False) for n in (self.heads, self.groups, self.groups)
        )
        self.q_norm, self.k_norm = Norm(self.head), Norm(self.head)
        self.o = nn.Linear(inner, c["hidden"], bias=False)
        self.gate, self.up = (nn.Linear(c["hidden"], c["inner"], bias=False) for _ in range(2))
        self.down = nn.Linear(c["inner"], c["hidden"], bias=False)

    def forward(self, x, cos, sin, cache):
        b, n, _ = x.shape
        y = self.before(x)
        q = self.q_norm(self.q(y).view(b, n, self.heads, self.head)).transpose(1, 2)
        k = self.k_norm(self.k(y).view(b, n, self.groups, self.head)).transpose(1, 2)
        v = self.v(y).view(b, n, self.groups, self.head).transpose(1, 2)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            cache[:] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, -1))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c["words"], c["hidden"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["layers"]))
        self.norm = Norm(c["hidden"])
        self.head = c["head"]
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, words, caches=None, start=0):
        x = self.embed(words)
        places = torch.arange(start, start + words.shape[1], device=words.device, dtype=torch.float32)
        step = torch.arange(0, self.head, 2, device=words.device, dtype=torch.float32) / self.head
        angles = torch.outer(places, 1e6**-step)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, None if caches is None else caches[i])
        return F.linear(self.norm(x), self.embed.weight)

    def loss(self, words):
        scores = self(words)[:, :-1].float().flatten(0, 1)
        return F.cross_entropy(scores, words[:, 1:].flatten())

    @torch.no_grad()
    def decode(self, words, count):
        caches = [[] for _ in self.layers]
        said, start = [], 0
        for _ in range(count):
            words = self(words, caches, start)[:, -1:].argmax(-1) if not said else words
            start = caches[0][0].shape[2]
            said.append(words)
            words = self(words, caches, start)[:, -1:].argmax(-1)
        return torch.cat(said, 1)


def made(config, device, dtype):
    """The same weights on any device: they are made on the CPU."""
    torch.manual_seed(0)
    return Model(config).to(dtype).to(device)
