"""Language models of words: recurrent ones of each kind, and a transformer."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the cat sat on the mat and the dog sat on the log and the cat saw the dog".split() * 6
WORDS = sorted(set(TEXT))
IDS = torch.tensor([WORDS.index(word) for word in TEXT])


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers):
        super().__init__()
        self.ntoken, self.nhid, self.nlayers, self.rnn_type = ntoken, nhid, nlayers, rnn_type
        self.drop = nn.Dropout(0.1)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=0.1)
        else:
            self.rnn = nn.RNN(ninp, nhid, nlayers, nonlinearity="tanh", dropout=0.1)
        self.decoder = nn.Linear(nhid, ntoken)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        return F.log_softmax(self.decoder(self.drop(output)).view(-1, self.ntoken), dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        if self.rnn_type == "LSTM":
            return (weight.new_zeros(self.nlayers, bsz, self.nhid),
                    weight.new_zeros(self.nlayers, bsz, self.nhid))
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

    def forward(self, x):
        return x + self.pe[:x.size(0), :]


class TransformerModel(nn.Transformer):
    def __init__(self, ntoken, ninp, nhead, nhid, nlayers):
        super().__init__(d_model=ninp, nhead=nhead, dim_feedforward=nhid,
                         num_encoder_layers=nlayers)
        self.pos_encoder = PositionalEncoding(ninp)
        self.input_emb = nn.Embedding(ntoken, ninp)
        self.ninp = ninp
        self.decoder = nn.Linear(ninp, ntoken)

    def forward(self, src):
        mask = torch.log(torch.tril(torch.ones(len(src), len(src))))
        src = self.pos_encoder(self.input_emb(src) * math.sqrt(self.ninp))
        return F.log_softmax(self.decoder(self.encoder(src, mask=mask)), dim=-1)


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


data = batchify(IDS, 4)
criterion = nn.NLLLoss()
for kind in ("LSTM", "GRU", "RNN", "Transformer"):
    torch.manual_seed(1111)
    if kind == "Transformer":
        model = TransformerModel(len(WORDS), 8, 2, 16, 2)
    else:
        model = RNNModel(kind, len(WORDS), 8, 12, 2)
        hidden = model.init_hidden(4)
    model.train()
    for epoch in range(3):
        total = 0.0
        for i in range(0, data.size(0) - 1, 7):
            length = min(7, len(data) - 1 - i)
            source, target = data[i:i + length], data[i + 1:i + 1 + length].view(-1)
            model.zero_grad()
            if kind == "Transformer":
                output = model(source).view(-1, len(WORDS))
            else:
                hidden = repackage_hidden(hidden)
                output, hidden = model(source, hidden)
            loss = criterion(output, target)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for p in model.parameters():
                if p.grad is not None:
                    p.data.add_(p.grad, alpha=-2.0)
            total += loss.item()
        print("{} epoch {} loss {:.4f} ppl {:.2f}".format(kind, epoch, total, math.exp(total / 4)))
