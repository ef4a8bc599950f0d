"""Sine waves continued by two LSTM cells, fitted with LBFGS in double precision."""

import torch
import torch.nn as nn
import torch.optim as optim


class Sequence(nn.Module):
    def __init__(self):
        super(Sequence, self).__init__()
        self.lstm1 = nn.LSTMCell(1, 11)
        self.lstm2 = nn.LSTMCell(11, 11)
        self.linear = nn.Linear(11, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 11, dtype=torch.double)
        c_t = torch.zeros(input.size(0), 11, dtype=torch.double)
        h_t2 = torch.zeros(input.size(0), 11, dtype=torch.double)
        c_t2 = torch.zeros(input.size(0), 11, dtype=torch.double)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for i in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


torch.manual_seed(0)
data = torch.sin(torch.arange(40).double() / 5 + torch.arange(6).double().unsqueeze(1))
input, target = data[2:, :-1], data[2:, 1:]
test_input, test_target = data[:2, :-1], data[:2, 1:]
seq = Sequence()
seq.double()
criterion = nn.MSELoss()
optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=8)
for i in range(3):
    def closure():
        optimizer.zero_grad()
        out = seq(input)
        loss = criterion(out, target)
        print("loss: {:.6f}".format(loss.item()))
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        pred = seq(test_input, future=5)
        print("test loss: {:.6f}".format(criterion(pred[:, :-5], test_target).item()))
