"""Graph convolutions and graph attention on two rings of nodes."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Adam


def normalized(adjacency):
    adjacency = adjacency + torch.eye(adjacency.size(0))
    degrees = adjacency.sum(dim=1).pow(-0.5)
    degrees[torch.isinf(degrees)] = 0
    return torch.diag(degrees) @ adjacency @ torch.diag(degrees)


class GraphConv(nn.Module):
    def __init__(self, input_dim, output_dim, use_bias=False):
        super(GraphConv, self).__init__()
        self.kernel = nn.Parameter(torch.Tensor(input_dim, output_dim))
        nn.init.xavier_normal_(self.kernel)
        self.bias = None
        if use_bias:
            self.bias = nn.Parameter(torch.Tensor(output_dim))
            nn.init.zeros_(self.bias)

    def forward(self, input_tensor, adj_mat):
        output = torch.mm(adj_mat, torch.mm(input_tensor, self.kernel))
        return output if self.bias is None else output + self.bias


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1 = GraphConv(8, 16)
        self.gc2 = GraphConv(16, 2, True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, adj):
        x = self.dropout(F.relu(self.gc1(x, adj)))
        return F.log_softmax(self.gc2(x, adj), dim=1)


class GraphAttention(nn.Module):
    def __init__(self, in_features, out_features, n_heads, concat):
        super().__init__()
        self.n_heads, self.concat = n_heads, concat
        self.n_hidden = out_features // n_heads if concat else out_features
        self.W = nn.Parameter(torch.empty(size=(in_features, self.n_hidden * n_heads)))
        self.a = nn.Parameter(torch.empty(size=(n_heads, 2 * self.n_hidden, 1)))
        self.leakyrelu = nn.LeakyReLU(0.2)
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)

    def forward(self, h, adj):
        n = h.shape[0]
        h = torch.mm(h, self.W).view(n, self.n_heads, self.n_hidden).permute(1, 0, 2)
        source = torch.matmul(h, self.a[:, :self.n_hidden, :])
        target = torch.matmul(h, self.a[:, self.n_hidden:, :])
        e = self.leakyrelu(source + target.mT)
        connectivity = -9e16 * torch.ones_like(e)
        attention = F.softmax(torch.where(adj > 0, e, connectivity), dim=-1)
        attention = F.dropout(attention, 0.1, training=self.training)
        h = torch.matmul(attention, h)
        if self.concat:
            return h.permute(1, 0, 2).contiguous().view(n, self.n_heads * self.n_hidden)
        return h.mean(dim=0)


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.gat1 = GraphAttention(8, 8, 2, True)
        self.gat2 = GraphAttention(8, 2, 1, False)

    def forward(self, x, adj):
        x = F.elu(self.gat1(x, adj))
        return F.log_softmax(self.gat2(x, adj), dim=1)


torch.manual_seed(13)
count = 20
labels = (torch.arange(count) >= count // 2).long()
adjacency = torch.zeros(count, count)
for i in range(count):
    half = i // 10 * 10
    j = half + (i - half + 1) % 10
    adjacency[i, j] = adjacency[j, i] = 1
adjacency[0, 10] = adjacency[10, 0] = 1
features = torch.randn(count, 8) + labels.unsqueeze(1) * 0.5
seen = torch.randperm(count)[:8]
for model, adj in ((GCN(), normalized(adjacency)), (GAT(), adjacency + torch.eye(count))):
    optimizer = Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(1, 31):
        model.train()
        optimizer.zero_grad()
        output = model(features, adj)
        loss = F.nll_loss(output[seen], labels[seen])
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0:
            model.eval()
            with torch.no_grad():
                output = model(features, adj)
                accuracy = (output.argmax(dim=1) == labels).float().mean().item()
            print("{} {} loss {:.4f} accuracy {:.2f}".format(
                type(model).__name__, epoch, loss.item(), accuracy))
