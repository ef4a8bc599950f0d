"""Programs that are traced: functions with their arguments, for goldens of graphs, decompositions and AOT capture."""


def programs(torch):
    """Functions with the arguments that they are traced with, by name."""
    F = torch.nn.functional  # noqa: N806
    found = {}

    def case(*args):
        def register(function):
            found[function.__name__] = (function, args)
            return function

        return register

    square = torch.arange(9.0).view(3, 3)
    recorded = torch.arange(9.0).view(3, 3).add(1).requires_grad_()
    weight = torch.ones(3, 3, requires_grad=True)

    @case(recorded, weight)
    def gradients(x, w):
        return torch.autograd.grad(F.linear(x, w).softmax(-1).exp().sum(), [x, w])

    @case(square)
    def write_to_view(x):
        return x.view(-1)[1:3].add_(1)

    @case(square)
    def several_results(x):
        return torch.max(x, dim=1), x.split(1), x.chunk(2)

    @case(square)
    def detached(x):
        z = x.detach()
        z.requires_grad_()
        return torch.autograd.grad((z * z).sum(), z)

    @case(square)
    def factories(x):
        made = torch.randn(3) + torch.rand(3, 3) + torch.tensor([1.0, 2.0, 3.0]) + x + torch.zeros_like(x)
        return made + torch.arange(3) + torch.full((3,), 2.0) + torch.eye(3) + torch.ones(3, dtype=torch.float32)

    @case(square)
    def indexing(x):
        return x[torch.tensor([0, 1])], x[0, None, 1:], x[:], x[..., 1], x[::2], x[:2, 1:]

    @case(square)
    def layers(x):
        return F.relu(x), F.layer_norm(x, [3]), F.gelu(x), F.cross_entropy(x, torch.tensor([0, 1, 2])), F.silu(x)

    @case(square)
    def attention(x):
        x = x[None, None]
        return F.scaled_dot_product_attention(x, x, x), F.conv2d(x, x), F.max_pool2d(x, 2)

    @case(square)
    def conversions(x):
        return x.to(torch.float64), x.float(), x.contiguous(), x.clone(), x.to(torch.int64)

    @case(square)
    def shapes(x):
        views = x.reshape(9), x.T, x.mT, x.squeeze(), x.unsqueeze(0), x.permute(1, 0), x.transpose(0, 1)
        return *views, x.expand(2, 3, 3), x.flatten()

    @case(square)
    def arithmetic(x):
        return x * 2, 2 - x, x / 3, x**2, x @ x, -x, x.mean(), x.var(), x == 1, ~(x > 0), 1 / (x + 1), x // 2, x % 2

    @case(square)
    def writes(x):
        z = x.clone()
        z[0] = 5
        z[1:] = x[1:]
        z.mul_(2)
        z += 1
        return z

    @case(square)
    def vectorised(x):
        return torch.func.vmap(lambda a: a.sin().sum())(x), torch.func.grad(lambda a: a.sin().sum())(x)

    @case(square)
    def choices(x):
        return torch.stack([x, x]), torch.cat([x, x]), torch.where(x > 0, x, 0.0), torch.clamp(x, 0, 1), x.clamp_min(0)

    @case({"x": square, "y": square + 1})
    def trees(d):
        return {"a": d["x"] + 1, "b": [d["y"], d["x"] * 2, 3, None]}

    @case(square)
    def written_input(x):
        x.add_(1)
        return x

    @case(square)
    def known_number(x):
        return x * torch.tensor(2).item()

    @case(square)
    def pullback(x):
        return torch.func.vjp(lambda a: a.cos(), x)[1](x)

    @case(square, 2.0)
    def number_argument(x, s):
        return x * s + 1

    @case(square)
    def reductions(x):
        return (
            x.sum(0, keepdim=True), x.sum(dim=(0, 1)), x.argmax(), x.sort(), x.topk(2), x.cumsum(0), x.norm(), x.any(),
            torch.add(x, x, alpha=2), x.amax(1), x.std(), x.logsumexp(0),
        )

    @case(square)
    def in_place_chain(x):
        a = x.relu_()
        return a, a.sigmoid_(), torch.add(x, x, out=torch.empty(3, 3))

    @case(square, square)
    def any_number_of_arguments(*args):
        return args[0] + args[1]

    return found


#: Calls of operators with their decompositions: `x`, `y` and `z` have sizes (3, 4), `im` is an image, `s` an element,
#: `i` holds positions, `b` is a mask.
CALLS = """
_log_softmax_backward_data(x, y, 1, torch.float32)
_softmax_backward_data(x, y, 1, torch.float32)
_prelu_kernel(x, y)
_prelu_kernel_backward(x, y, z)
_unsafe_view(x, [12])
addcdiv(x, y, z, value=2)
addcmul(x, y, z)
all.dim(b, 1)
aminmax(x, dim=1)
baddbmm(im[0], im[0], im[0])
binary_cross_entropy(x, z)
binary_cross_entropy_backward(s, x, z)
binary_cross_entropy_with_logits(x, z)
celu(x, 2.0)
clamp_max(x, 0.5)
clamp_min.Tensor(x, y)
count_nonzero.dim_IntList(x, [0])
deg2rad(x)
detach(x)
dot(x[0], y[0])
elu_backward(x, 1.0, 1.0, 1.0, False, y)
floor_divide(x, y)
frac(x)
gelu_backward(x, y)
gelu_backward(x, y, approximate="tanh")
glu(x, 1)
hardshrink(x)
hardsigmoid(x)
hardsigmoid_backward(x, y)
hardswish(x)
hardswish_backward(x, y)
hardtanh_backward(x, y, -1, 1)
huber_loss(x, y)
huber_loss_backward(s, x, y, 1, 1.0)
index_add(x, 0, i, y)
index_copy(x, 0, i, y)
isfinite(x)
isneginf(x)
leaky_relu_backward(x, y, 0.1, False)
lerp.Tensor(x, y, z)
lerp.Scalar(x, y, 0.3)
linalg_vector_norm(x)
linalg_vector_norm(x, 3, [1], True)
linalg_vector_norm(x, float("inf"))
logaddexp(x, y)
logaddexp2(x, y)
logit(x, 0.1)
logsumexp(x, [1])
masked_fill.Scalar(x, b, 1)
mish(x)
mse_loss(x, y)
mse_loss_backward(s, x, y, 1)
mv(x, x[0])
nan_to_num(x)
nansum(x, [1])
native_dropout_backward(x, b, 2.0)
new_zeros(x, [2])
ones_like(x)
roll(x, [1], [0])
rsub.Scalar(x, 2)
select_backward(x[0], [3, 4], 0, 1)
sigmoid_backward(x, y)
silu(x)
silu_backward(x, y)
sinc(x)
slice_backward(x[:2], [3, 4], 0, 0, 2, 1)
smooth_l1_loss(x, y)
soft_margin_loss(x, y)
softplus(x)
softplus_backward(x, y, 1, 20)
softshrink(x)
special_xlog1py(x, y)
split.Tensor(x, 2)
squeeze(x)
stack([x, y])
std.correction(x)
sum(x)
t(x)
tanh_backward(x, y)
threshold(x, 0.3, 0.2)
threshold_backward(x, y, 0)
trace(x)
transpose.int(x, 0, 1)
tril(x)
unbind.int(x)
upsample_nearest2d(im, [8, 8])
vdot(x[0], y[0])
xlogy.Tensor(x, y)
zeros([2])
""".strip().splitlines()


def operands(torch):
    """What calls of operators name."""
    torch.manual_seed(0)
    x = torch.arange(12.0).view(3, 4) / 16 + 0.1
    return {
        "x": x, "y": x.flip(0) + 0.05, "z": x * 0.5 + 0.2, "im": torch.arange(32.0).view(1, 2, 4, 4) / 32,
        "s": torch.tensor(0.5), "i": torch.tensor([0, 1, 2]), "b": x > 0.5,
    }


def call(torch, text, values):
    """A call as a function of those operands that it names, with these."""
    import re

    names = [name for name in values if re.search(rf"\b{name}\b", text)]
    space = {"torch": torch, "aten": torch.ops.aten}
    function = eval(f"lambda {', '.join(names)}: aten.{text}", space)  # noqa: S307
    return function, [values[name] for name in names]


def compiled_programs(torch):
    """Functions whose backward passes are captured, with their arguments."""
    F = torch.nn.functional  # noqa: N806

    def fresh(*size):
        count = 1
        for one in size:
            count *= one
        return (torch.arange(float(count)).view(size) / count + 0.1).requires_grad_()

    def scaled(x, y):
        x.mul_(2)
        return x * y

    def added(x):
        x.add_(1)
        return x * 2

    return {
        "linear": (lambda x, w: F.linear(x, w).relu().sin(), (fresh(2, 3), fresh(2, 3))),
        "inference": (lambda x: x * 2 + 1, (fresh(3).detach(),)),
        "written": (added, (fresh(3).detach(),)),
        "written_and_recorded": (scaled, (fresh(3).detach(), fresh(3))),
        "views": (lambda x: (x.view(-1), x, x * 2), (fresh(2, 2),)),
        "several": (lambda x, w: (x.exp() * w, (x * w).sum(0), x.tanh()), (fresh(2, 2), fresh(2, 2))),
        "normalised": (lambda x, w: F.layer_norm(x, [4], w).softmax(-1), (fresh(3, 4), fresh(4))),
    }
