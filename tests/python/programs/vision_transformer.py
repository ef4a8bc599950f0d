"""A vision transformer of small pictures, with mixed precision and accumulated gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.amp import GradScaler, autocast


class PatchExtractor(nn.Module):
    def __init__(self, patch_size=4):
        super().__init__()
        self.patch_size = patch_size

    def forward(self, x):
        b, c, h, w = x.size()
        p = self.patch_size
        x = x.unfold(2, p, p).unfold(3, p, p)
        return x.permute(0, 2, 3, 1, 4, 5).contiguous().view(b, h // p * (w // p), c * p * p)


class ViT(nn.Module):
    def __init__(self, dim=16, heads=2, layers=2, classes=3):
        super().__init__()
        self.patches = PatchExtractor()
        self.project = nn.Linear(48, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, 10, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 32, 0.0, "gelu", batch_first=True,
                                           norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        x = self.project(self.patches(x))
        x = torch.cat([self.cls_token.expand(x.size(0), -1, -1), x], dim=1) + self.position
        return self.head(self.encoder(x)[:, 0])


torch.manual_seed(4)
labels = torch.arange(24) % 3
images = torch.randn(24, 3, 12, 12) * 0.3
images[torch.arange(24), labels] += 1.0
model = ViT()
print("parameters", sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(6):
    loss = criterion(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print("epoch {} loss {:.4f}".format(epoch, loss.item()))
scaler = GradScaler("cpu", init_scale=16.0)
for epoch in range(3):
    with autocast("cpu", dtype=torch.bfloat16):
        logits = model(images)
        loss = F.cross_entropy(logits.float(), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print("mixed {} loss {:.1f} {}".format(epoch, loss.item(), logits.dtype))
