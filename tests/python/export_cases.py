"""Programs for the tests of exports: functions of one tensor by name, and modules with their inputs."""


def input_of(torch):
    """The tensor that the functions are called with."""
    return torch.arange(24.0).reshape(2, 3, 4) + 0.5


def functions(torch):
    """Functions of one tensor; every one calls few operators."""
    F, i = torch.nn.functional, torch.tensor([[0, 1], [1, 0]])  # noqa: N806
    return {
        "add": lambda x: x + 1,
        "sub": lambda x: x - 1.5,
        "rsub": lambda x: 2 - x,
        "mul": lambda x: 2 * x,
        "div": lambda x: x / 2,
        "rdiv": lambda x: 1 / x,
        "pow": lambda x: x ** 2,
        "rpow": lambda x: 2 ** x,
        "fdiv": lambda x: x // 2,
        "mod": lambda x: x % 2,
        "neg": lambda x: -x,
        "abs": lambda x: abs(x),
        "eq": lambda x: x == 1,
        "lt": lambda x: x < 1,
        "and_": lambda x: (x > 1) & (x < 3),
        "inv": lambda x: ~(x > 1),
        "xor": lambda x: (x > 1) ^ (x < 3),
        "not_": lambda x: (x > 1).logical_not(),
        "iadd": lambda x: x.clone().add_(1),
        "imul": lambda x: x.clone().mul_(2),
        "tof64": lambda x: x.to(torch.float64),
        "flt": lambda x: x.float(),
        "lng": lambda x: x.long(),
        "typ": lambda x: x.type(torch.float64),
        "todev": lambda x: x.to('cpu'),
        "todevd": lambda x: x.to('cpu', torch.float64),
        "toother": lambda x: x.to(x.double()),
        "type_as": lambda x: x.type_as(x.double()),
        "tokw": lambda x: x.to(dtype=torch.float64),
        "tokwd": lambda x: x.to(device='cpu', dtype=torch.float64),
        "half": lambda x: x.half(),
        "cpu": lambda x: x.cpu(),
        "idx": lambda x: x[0],
        "idx2": lambda x: x[:, 1],
        "idx3": lambda x: x[:, None, 1:3],
        "idx4": lambda x: x[..., 0],
        "idx5": lambda x: x[torch.tensor([0])],
        "idx7": lambda x: x[:, torch.tensor([0, 1]), 0],
        "idx8": lambda x: x[-1:],
        "idx9": lambda x: x[:, ::2],
        "setidx": lambda x: (lambda y: (y.__setitem__(0, 2.0), y)[1])(x.clone()),
        "setidx2": lambda x: (lambda y: (y.__setitem__((slice(None), 0), y[:, 1]), y)[1])(x.clone()),
        "setidx3": lambda x: (lambda y: (y.__setitem__(y > 3, 0.0), y)[1])(x.clone()),
        "sum": lambda x: x.sum(),
        "sumd": lambda x: x.sum(1),
        "sumk": lambda x: x.sum((0, 1), keepdim=True),
        "mean": lambda x: x.mean(-1, keepdim=True),
        "var": lambda x: x.var(1),
        "var2": lambda x: x.var(1, unbiased=False),
        "varc": lambda x: torch.var(x, 1, correction=0),
        "std": lambda x: x.std(),
        "max": lambda x: x.max(),
        "maxd": lambda x: x.max(1)[0],
        "maxv": lambda x: x.max(1).values,
        "amax": lambda x: x.amax(1),
        "argmax": lambda x: x.argmax(-1),
        "norm": lambda x: x.norm(dim=1),
        "norm2": lambda x: torch.norm(x),
        "fnorm": lambda x: F.normalize(x, dim=1),
        "vm": lambda x: torch.var_mean(x, 1),
        "prod": lambda x: x.prod(1),
        "cumsum": lambda x: x.cumsum(1),
        "all": lambda x: (x > 0).all(),
        "any": lambda x: (x > 0).any(1),
        "lse": lambda x: x.logsumexp(1),
        "med": lambda x: x.median(),
        "topk": lambda x: x.topk(2),
        "sort": lambda x: x.sort(),
        "mm": lambda x: x.min(1)[1],
        "view": lambda x: x.view(2, -1),
        "resh": lambda x: x.reshape(-1),
        "flat": lambda x: x.flatten(1),
        "perm": lambda x: x.permute(0, 2, 1),
        "tr": lambda x: x.transpose(1, 2),
        "t": lambda x: x[0].t(),
        "T": lambda x: x[0].T,
        "mT": lambda x: x.mT,
        "sq": lambda x: x.unsqueeze(1).squeeze(1),
        "squ": lambda x: x[None].squeeze(),
        "ex": lambda x: x.unsqueeze(0).expand(5, -1, -1, -1),
        "exas": lambda x: x[:1].expand_as(x),
        "rep": lambda x: x.repeat(1, 2, 1),
        "chunk": lambda x: x.chunk(2, -1),
        "split": lambda x: x.split(2, -1),
        "splits": lambda x: x.split([1, 3], -1),
        "unb": lambda x: x.unbind(0),
        "stack": lambda x: torch.stack([x, x]),
        "cat": lambda x: torch.cat([x, x], 1),
        "hst": lambda x: torch.hstack([x, x]),
        "roll": lambda x: x.roll(1, 1),
        "flip": lambda x: x.flip(1),
        "movd": lambda x: x.movedim(0, 1),
        "swap": lambda x: x.swapaxes(0, 1),
        "unfl": lambda x: x.unflatten(2, (2, 2)),
        "unfold": lambda x: x.unfold(1, 2, 1),
        "contig": lambda x: x.transpose(1, 2).contiguous(),
        "clone": lambda x: x.clone(),
        "det": lambda x: x.detach(),
        "narrow": lambda x: x.narrow(1, 0, 2),
        "sel": lambda x: x.select(1, 0),
        "tile": lambda x: torch.tile(x, (2,)),
        "ri": lambda x: x.repeat_interleave(2, dim=1),
        "diag": lambda x: x[0].diagonal(),
        "tril": lambda x: x.tril(),
        "viewas": lambda x: x.view_as(x),
        "iter": lambda x: [y + 1 for y in x],
        "unpack": lambda x: (lambda a, b: a + b)(*x),
        "bcast": lambda x: torch.broadcast_to(x[:1], (2, 3, 4)),
        "ravel": lambda x: x.ravel(),
        "tsplit": lambda x: torch.tensor_split(x, 2, 2),
        "atl": lambda x: torch.atleast_2d(x[0, 0]),
        "mesh": lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing='ij'),
        "mf": lambda x: x.masked_fill(x > 1, 0),
        "mft": lambda x: x.masked_fill(x > 1, float('-inf')),
        "where": lambda x: torch.where(x > 1, x, 0.0),
        "where2": lambda x: torch.where(x > 1, x, x * 2),
        "where3": lambda x: x.where(x > 1, x * 2),
        "gather": lambda x: x[0].gather(1, i),
        "isel": lambda x: x.index_select(1, torch.tensor([0])),
        "scat": lambda x: x[0].scatter(1, i, 1.0),
        "scat2": lambda x: torch.zeros(2, 4).scatter_(1, i, x[0, :2]),
        "clamp": lambda x: x.clamp(min=0),
        "clamp2": lambda x: x.clamp(0, 1),
        "clamp3": lambda x: torch.clamp_min(x, 1),
        "relu": lambda x: F.relu(x),
        "trelu": lambda x: torch.relu(x),
        "mrelu": lambda x: x.relu(),
        "relui": lambda x: F.relu(x.clone(), inplace=True),
        "relu6": lambda x: F.relu6(x),
        "hsw": lambda x: F.hardswish(x),
        "hsig": lambda x: F.hardsigmoid(x),
        "silu": lambda x: F.silu(x),
        "silui": lambda x: F.silu(x.clone(), inplace=True),
        "gelu": lambda x: F.gelu(x),
        "gelut": lambda x: F.gelu(x, approximate='tanh'),
        "lrelu": lambda x: F.leaky_relu(x),
        "elu": lambda x: F.elu(x),
        "sig": lambda x: x.sigmoid(),
        "fsig": lambda x: F.sigmoid(x),
        "tanh": lambda x: torch.tanh(x),
        "sp": lambda x: F.softplus(x),
        "mish": lambda x: F.mish(x),
        "ht": lambda x: F.hardtanh(x),
        "glu": lambda x: F.glu(x),
        "prelu": lambda x: F.prelu(x, torch.tensor([0.1])),
        "sm": lambda x: F.softmax(x, -1),
        "smd": lambda x: F.softmax(x, -1, dtype=torch.float32),
        "msm": lambda x: x.softmax(-1),
        "lsm": lambda x: F.log_softmax(x, -1),
        "exp": lambda x: x.exp(),
        "log": lambda x: x.log(),
        "sqrt": lambda x: x.sqrt(),
        "rsqrt": lambda x: torch.rsqrt(x),
        "erf": lambda x: x.erf(),
        "sin": lambda x: x.sin(),
        "round": lambda x: x.round(),
        "floor": lambda x: x.floor(),
        "sgn": lambda x: x.sign(),
        "recip": lambda x: x.reciprocal(),
        "isnan": lambda x: x.isnan(),
        "maxi": lambda x: torch.maximum(x, x),
        "sq2": lambda x: x.square(),
        "atan2": lambda x: torch.atan2(x, x),
        "n2n": lambda x: torch.nan_to_num(x),
        "lerp": lambda x: torch.lerp(x, x, 0.5),
        "addc": lambda x: torch.addcmul(x, x, x, value=2),
        "mmul": lambda x: x @ x.mT,
        "mat": lambda x: torch.matmul(x, x.transpose(-1, -2)),
        "bmm": lambda x: torch.bmm(x, x.transpose(1, 2)),
        "mmm": lambda x: torch.mm(x[0], x[0].t()),
        "ein": lambda x: torch.einsum('bij,bkj->bik', x, x),
        "lin": lambda x: F.linear(x, x[0]),
        "baddbmm": lambda x: torch.baddbmm(x @ x.mT, x, x.mT),
        "addmm": lambda x: torch.addmm(x[0] @ x[0].T, x[0], x[0].T, beta=0.5),
        "outer": lambda x: torch.outer(x[0, 0], x[0, 0]),
        "dot": lambda x: torch.dot(x[0, 0], x[0, 0]),
        "ln": lambda x: F.layer_norm(x, (4,)),
        "ln2": lambda x: F.layer_norm(x, (4,), x[0, 0], x[0, 1], 1e-06),
        "gn": lambda x: F.group_norm(x, 3),
        "inn": lambda x: F.instance_norm(x),
        "rms": lambda x: F.rms_norm(x, (4,)),
        "bn": lambda x: F.batch_norm(x, x[0, :, 0], x[0, :, 0]),
        "drop": lambda x: F.dropout(x, 0.5, False),
        "dropt": lambda x: F.dropout(x),
        "sdpa": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
        "sdpa2": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True, scale=0.3),
        "sdpam": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=x[None, :, :, :3]),
        "conv1": lambda x: F.conv1d(x, x[:, :, :1], padding=1),
        "convs": lambda x: F.conv1d(x, x[:, :, :3], padding='same'),
        "convt": lambda x: F.conv_transpose1d(x, x[:1].transpose(0, 1)),
        "mp": lambda x: F.max_pool2d(x[None], 2),
        "mp1": lambda x: F.max_pool1d(x, 2),
        "ap": lambda x: F.avg_pool2d(x[None], 2),
        "aap": lambda x: F.adaptive_avg_pool2d(x[None], 1),
        "aap1": lambda x: F.adaptive_avg_pool1d(x, 1),
        "amp": lambda x: F.adaptive_max_pool2d(x[None], 1),
        "interp": lambda x: F.interpolate(x[None], scale_factor=2),
        "interps": lambda x: F.interpolate(x[None], size=(6, 8)),
        "interpb": lambda x: F.interpolate(x[None], scale_factor=2, mode='bilinear'),
        "interpbs": lambda x: F.interpolate(x[None], size=(6, 8), mode='bilinear', align_corners=True),
        "interpc": lambda x: F.interpolate(x[None], size=(6, 8), mode='bicubic'),
        "ps": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1)[:, :4][:, :, None].expand(2, 4, 3, 4), 2),
        "pad": lambda x: F.pad(x, (1, 1)),
        "padr": lambda x: F.pad(x, (1, 1), mode='reflect'),
        "padc": lambda x: F.pad(x, (1, 1, 0, 1), value=2.0),
        "emb": lambda x: F.embedding(i, x[0]),
        "oneh": lambda x: F.one_hot(i, 3),
        "ce": lambda x: F.cross_entropy(x[0], torch.tensor([0, 1, 2])),
        "mse": lambda x: F.mse_loss(x, x),
        "grid": lambda x: F.grid_sample(x[None], x[:1, :2, :2][..., None].expand(1, 2, 2, 2)),
        "cos": lambda x: F.cosine_similarity(x, x, dim=1),
        "bce": lambda x: F.binary_cross_entropy_with_logits(x, x),
        "zeros": lambda x: torch.zeros(2, 3),
        "ones": lambda x: torch.ones((2,), dtype=torch.int64),
        "full": lambda x: torch.full((2,), 1.5),
        "ar": lambda x: torch.arange(4),
        "ar2": lambda x: torch.arange(1, 4, device=x.device),
        "ar3": lambda x: torch.arange(0, 4, 2, dtype=torch.float32),
        "zl": lambda x: torch.zeros_like(x),
        "ol": lambda x: torch.ones_like(x, dtype=torch.int64),
        "nz": lambda x: x.new_zeros(2),
        "no": lambda x: x.new_ones((2, 3)),
        "nf": lambda x: x.new_full((2,), 3),
        "nt": lambda x: x.new_tensor([1.0, 2.0]),
        "lin_1": lambda x: torch.linspace(0, 1, 3),
        "eye": lambda x: torch.eye(3),
        "emp": lambda x: torch.empty(2),
        "fl": lambda x: torch.full_like(x, 2),
        "rand": lambda x: torch.rand(2),
        "randn": lambda x: torch.randn_like(x),
        "tens": lambda x: torch.tensor(3),
        "ast": lambda x: torch.as_tensor([1, 2]),
        "bern": lambda x: torch.bernoulli(x / 100),
        "mult": lambda x: torch.multinomial(x[0], 1),
        "ne": lambda x: x.new_empty(2),
        "tt": lambda x: x + torch.tensor(2),
        "shape": lambda x: x * x.shape[0],
        "size": lambda x: x.view(x.size(0), -1),
        "cplx": lambda x: torch.view_as_complex(x.reshape(2, 3, 2, 2)),
        "cplx2": lambda x: torch.view_as_real(torch.complex(x, x)),
        "polar": lambda x: torch.polar(x, x),
        "fft": lambda x: torch.fft.rfft(x),
        "fft2": lambda x: torch.fft.fft2(x),
        "lnorm": lambda x: torch.linalg.norm(x),
        "lvn": lambda x: torch.linalg.vector_norm(x, dim=1),
        "data": lambda x: x.data + 1,
        "cdist": lambda x: torch.cdist(x, x),
        "bucket": lambda x: torch.bucketize(x, x[0, 0]),
        "sw": lambda x: torch.special.expit(x),
        "triu": lambda x: torch.triu(torch.ones(3, 3), diagonal=1),
        "ilog": lambda x: x.log1p(),
        "floord": lambda x: torch.div(x, 2, rounding_mode='floor'),
        "truediv": lambda x: torch.true_divide(x, 2),
        "addalpha": lambda x: torch.add(x, x, alpha=2),
        "radd": lambda x: torch.add(x, 1),
        "addi": lambda x: (lambda y: (y.__iadd__(x), y)[1])(x.clone()),
        "minus": lambda x: x - x,
        "pw": lambda x: torch.pow(x, 0.5),
        "expm1": lambda x: torch.expm1(x),
        "swp": lambda x: x.swapdims(0, 1),
        "tk": lambda x: torch.take(x, i),
        "takeal": lambda x: torch.take_along_dim(x[0], i, 1),
        "mi": lambda x: torch.minimum(x, x),
        "logi": lambda x: torch.logical_and(x > 1, x < 2),
        "cum": lambda x: torch.cumprod(x, 1),
        "kth": lambda x: torch.kthvalue(x, 1),
        "msum": lambda x: torch.nansum(x),
        "cl": lambda x: x.contiguous(memory_format=torch.contiguous_format),
        "clm": lambda x: x[None].to(memory_format=torch.channels_last),
        "cllk": lambda x: x.clip(0, 1),
        "sumdt": lambda x: x.sum(dtype=torch.float64),
        "meandt": lambda x: x.mean(dtype=torch.float64),
        "bitw": lambda x: x.long() & 1,
        "shl": lambda x: x.long() << 1,
        "rshl": lambda x: x.long() >> 1,
        "ishl": lambda x: x.long() | 1,
        "rfd": lambda x: torch.floor_divide(x, 2),
        "ceil": lambda x: x.ceil(),
        "hswi": lambda x: F.hardswish(x.clone(), inplace=True),
        "hsigi": lambda x: F.hardsigmoid(x.clone(), inplace=True),
        "elui": lambda x: F.elu(x.clone(), inplace=True),
        "dropi": lambda x: F.dropout(x.clone(), 0.1, True, inplace=True),
        "sin_1": lambda x: x.clone().sin_(),
        "zero": lambda x: x.clone().zero_(),
        "fill": lambda x: x.clone().fill_(1),
        "copy": lambda x: x.clone().copy_(x),
        "mf_1": lambda x: x.clone().masked_fill_(x > 1, 0),
        "clamp_1": lambda x: x.clone().clamp_(0, 1),
        "uns": lambda x: x.clone().unsqueeze_(0),
        "transp": lambda x: x.clone().transpose_(0, 1),
        "iadd2": lambda x: torch.add(x, x, out=torch.empty_like(x)) if 0 else x + 1,
        "idxadd": lambda x: x.index_add(0, torch.tensor([0]), x[:1]),
        "idxc": lambda x: x.index_copy(0, torch.tensor([0]), x[:1]),
        "idxp": lambda x: x.index_put((torch.tensor([0]),), x[:1]),
        "sadd": lambda x: x[0].scatter_add(1, i, x[0, :2]),
        "mscat": lambda x: x.masked_scatter(x > 1, x),
        "d1": lambda x: F.dropout1d(x),
        "d2": lambda x: F.dropout2d(x[None]),
        "sofn": lambda x: F.softmin(x, 1),
        "tril2": lambda x: torch.tril(torch.ones(3, 3)).bool(),
        "sq0": lambda x: x.squeeze(0),
        "sqm": lambda x: torch.squeeze(x[None], (0,)),
        "logsig": lambda x: F.logsigmoid(x),
        "selu": lambda x: F.selu(x),
        "celu": lambda x: F.celu(x),
        "hshr": lambda x: F.hardshrink(x),
        "thresh": lambda x: F.threshold(x, 1, 0),
        "tanh_1": lambda x: F.tanh(x),
        "tsh": lambda x: F.tanhshrink(x),
        "ssign": lambda x: F.softsign(x),
        "lrn": lambda x: F.local_response_norm(x, 2),
        "l1": lambda x: F.l1_loss(x, x),
        "sl1": lambda x: F.smooth_l1_loss(x, x),
        "kl": lambda x: F.kl_div(x, x, reduction='batchmean'),
        "nll": lambda x: F.nll_loss(x[0], torch.tensor([0, 1, 2])),
    }


def filled(module, torch):
    """A module whose parameters and buffers are numbers that follow from their sizes."""
    with torch.no_grad():
        for value in (*module.parameters(), *module.buffers()):
            if value.is_floating_point():
                value.copy_(torch.linspace(0.1, 1.1, value.numel()).reshape(value.shape))
    return module


def modules(torch):  # noqa: C901
    """Modules with positional and named inputs, by name."""
    nn, F = torch.nn, torch.nn.functional  # noqa: N806
    found = {}

    class Everything(nn.Module):
        """Buffers that are written to, tied parameters, constants and trees."""

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)
            self.bn = nn.BatchNorm1d(4)
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("scale", torch.ones(1), persistent=False)
            self.k = torch.ones(4)
            self.tied = self.linear

        def forward(self, x, y, *, flag=True, d=None):
            self.count.add_(1)
            z = self.bn(self.linear(x)).relu_() + self.k + self.scale + torch.tensor([1.0, 2, 3, 4])
            a, b = z.chunk(2, 1)
            return {"o": a.flatten(1) + y[0], "z": b.contiguous().view(-1), "n": 3, "no": None}, self.tied(x), x

    x = torch.arange(6.0).reshape(2, 3)
    found["everything"] = (
        filled(Everything(), torch), (x, [torch.ones(2, 2)]),
        {"flag": False, "d": {"q": torch.ones(1), "unused": 2}},
    )

    class Assigned(nn.Module):
        """A buffer that is given another tensor, an input that is written to, and variable arguments."""

        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.zeros(2))
            self.Lin = nn.Linear(2, 2)
            self.seq = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

        def forward(self, *args, mul, **kwargs):
            self.b = self.b + 1
            z = args[0] * 2 * args[1] * mul + kwargs["kk"]["A.b"]
            args[0].add_(1)
            return self.seq(self.seq(self.Lin(z))), self.b

    two = torch.tensor([1.0, 2.0])
    found["assigned"] = (filled(Assigned(), torch), (two, two + 1), {"mul": two * 3, "kk": {"A.b": two - 1}})

    class Convolutions(nn.Module):
        """An image network in training mode off."""

        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
            self.head = nn.Linear(8, 3)

        def forward(self, image):
            return F.log_softmax(self.head(self.body(image).flatten(1)), dim=-1)

    image = torch.arange(16.0).reshape(1, 1, 4, 4) / 16
    found["convolutions"] = (filled(Convolutions(), torch).eval(), (image,), {})

    class Attention(nn.Module):
        """A layer of a transformer."""

        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(4)
            self.qkv = nn.Linear(4, 12, bias=False)
            self.embed = nn.Embedding(5, 4)

        def forward(self, ids):
            x = self.norm(self.embed(ids))
            q, k, v = self.qkv(x).view(1, 3, 3, 4).unbind(2)
            return x + F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]

    found["attention"] = (filled(Attention(), torch), (torch.tensor([[1, 4, 2]]),), {})

    class Branches(nn.Module):
        """One of two functions, which use a parameter."""

        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, 3)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: self.l(x).sin(), lambda x: x.cos() + self.l.bias, (x,))

    found["branches"] = (filled(Branches(), torch), (x,), {})

    class WithoutGradients(nn.Module):
        """A part without gradients."""

        def forward(self, x):
            with torch.no_grad():
                y = x * 2
                y = y + 1
            return y * x

    found["without_gradients"] = (WithoutGradients(), (x,), {})

    class Numbers(nn.Module):
        """Numbers of all kinds among the arguments of operators."""

        def forward(self, x, n, f=1.5):
            y = F.pad(x * n, (1, 1), value=f).to(torch.float64)
            return torch.where(y > 1, y, float("-inf")), y.clamp(0), torch.full((2,), True)

    found["numbers"] = (Numbers(), (x, 3), {"f": 2.5})
    return found
