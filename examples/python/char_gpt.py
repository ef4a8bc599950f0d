"""A small GPT that learns to write like Milton, letter by letter."""

import math

from common import DATA, Progress, arguments, save, torch

nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each behind a normalisation."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class GPT(nn.Module):
    """Letters and positions to vectors, blocks, logits of the next letter."""

    def __init__(self, letters, context, width=96, heads=4, layers=3):
        super().__init__()
        self.context = context
        self.letters = nn.Embedding(letters, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.logits = nn.Linear(width, letters, bias=False)
        for param in self.parameters():
            if param.dim() > 1:
                nn.init.normal_(param, std=0.02)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        return self.logits(self.norm(self.blocks(self.letters(x) + self.positions(places))))


def batch_of(text, size, context):
    """Random pieces of the text and the letters that follow each of theirs."""
    starts = torch.randint(len(text) - context, (size,)).tolist()
    x = torch.stack([text[i:i + context] for i in starts])
    y = torch.stack([text[i + 1:i + context + 1] for i in starts])
    return x, y


def loss_of(net, x, y):
    return F.cross_entropy(net(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def bits_per_letter(net, text, context, pieces=64):
    """How many bits the model needs for a letter of unseen text."""
    starts = range(0, len(text) - context - 1, (len(text) - context - 1) // pieces)
    x = torch.stack([text[i:i + context] for i in starts])
    y = torch.stack([text[i + 1:i + context + 1] for i in starts])
    return loss_of(net, x, y).item() / math.log(2)


@torch.no_grad()
def write(net, letters, start, count):
    """Continues `start`, drawing each letter from the model's distribution."""
    x = torch.tensor([[letters.index(c) for c in start]])
    for _ in range(count):
        logits = net(x[:, -net.context:])[:, -1]
        x = torch.cat([x, torch.multinomial(logits.softmax(-1), 1)], dim=1)
    return "".join(letters[i] for i in x[0].tolist())


def begin(argv=None):
    """Options, model, the letters, and the text as numbers, all of seed 0."""
    args = arguments(__doc__, argv, steps=600, lr=3e-3, context=64, batch=32)
    torch.manual_seed(0)
    poem = (DATA / "paradise_lost.txt").read_text()
    letters = sorted(set(poem))
    places = {letter: i for i, letter in enumerate(letters)}
    text = torch.tensor([places[c] for c in poem])
    return args, GPT(len(letters), args.context), letters, text


def train_writer(net, text, args, limit=None):
    """Trains with AdamW, for `limit` steps at most; returns the losses."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.steps, cycle_momentum=False, pct_start=0.1
    )
    progress, losses = Progress(args.steps), []
    while len(losses) < min(args.steps, limit or args.steps):
        loss = loss_of(net, *batch_of(text, args.batch, args.context))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress.step(f"loss {losses[-1]:.4f}")
    return losses


def main():
    args, net, letters, text = begin()
    cut = len(text) * 9 // 10
    losses = train_writer(net, text[:cut], args)
    print(f"{bits_per_letter(net, text[cut:], args.context):.3f} bits per letter of unseen text")
    print(write(net, letters, "Of Man's first ", 200))
    save(net, losses, args, "char_gpt")


if __name__ == "__main__":
    main()
