"""Programs with writes and views, for the tests of functionalisation: each is a function of one tensor."""


def cases(torch):
    """The programs by name, with the sizes of their inputs."""
    found = {}

    def case(*size, dtype="float32"):
        def register(function):
            found[function.__name__] = (function, size, dtype)
            return function

        return register

    @case(4, 2)
    def one_view(x):
        y = x.view(8)
        y.add_(1)
        return y

    @case(4, 2)
    def view_after_write(x):
        x.add_(1)
        y = x.view(-1)
        return y + 1

    @case(4)
    def two_views_of_one_base(x):
        y, z = x.view(-1), x.view(2, 2)
        x.add_(1)
        return y + 1, z + 1

    @case(4, 2)
    def out_of_another_size(x):
        z = torch.empty(0)
        torch.add(x, x, out=z)
        return z

    @case(4, 2)
    def out_of_a_view(x):
        z = torch.zeros(8, 2)
        torch.mul(x, 2, out=z[:4])
        return z

    @case(2, 3)
    def transposed(x):
        y = x.transpose(0, 1)
        y[0].mul_(2)
        x.add_(1)
        return y

    @case(3, 3)
    def diagonal(x):
        d = x.clone().diagonal()
        d.add_(1)
        return d

    @case(3, 3)
    def diagonal_of_argument(x):
        x.diagonal().add_(torch.ones(3))
        return x * x

    @case(4, 2)
    def split(x):
        a, b = x.split(2)
        a.add_(1)
        return a + b

    @case(4, 2)
    def split_with_sizes(x):
        a, b = torch.split(x.clone(), [1, 3])
        b.diagonal().add_(1)
        return a, b

    @case(2, 3)
    def unbind(x):
        a, b = x.unbind(0)
        b.mul_(a)
        return b

    @case(1, 4)
    def squeeze(x):
        x.squeeze().add_(1)
        x.squeeze(0).mul_(2)
        x.squeeze((0, 1)).sub_(1)
        return x

    @case(2, 3)
    def unsqueeze(x):
        x.unsqueeze(1).add_(1)
        return x

    @case(2, 3, 4)
    def permute(x):
        x.permute(2, 0, 1).add_(1)
        return x

    @case(2, 3)
    def t(x):
        x.t().mul_(3)
        return x

    @case(3)
    def expand_of_one(x):
        x.unsqueeze(0).expand(1, 3).add_(1)
        return x

    @case(4, 4)
    def as_strided(x):
        x.as_strided((2, 2), (4, 1)).add_(1)
        return x

    @case(5)
    def slices(x):
        x[1:3].zero_()
        x[::2].fill_(7)
        return x

    @case(3, 3)
    def select_of_slice(x):
        x[1:][0].add_(1)
        return x.sum()

    @case(3, 3)
    def view_in_place(x):
        y = x.clone()
        y.t_()
        y.unsqueeze_(0)
        y.squeeze_(0)
        y.transpose_(0, 1)
        y.add_(1)
        return y

    @case(3)
    def copy(x):
        y = torch.zeros(2, 3)
        y.copy_(x)
        return y

    @case(3)
    def set_item(x):
        y = torch.zeros(2, 3)
        y[0] = x
        y[1, 1:] = 5
        return y

    @case(4)
    def fill(x):
        x.fill_(1)
        y = x + 1
        x.zero_()
        return y

    @case(4)
    def comparison(x):
        x.gt_(1)
        return x

    @case(4)
    def masked_fill(x):
        x.masked_fill_(x > 0, 3)
        return x

    @case(4)
    def index_put(x):
        x[x > 0] = 1
        return x

    @case(4, 2)
    def foreach(x):
        a, b = x.clone(), x.clone()
        torch._foreach_add_([a, b], 1)
        return a + b

    @case(2, 2)
    def chain_of_views(x):
        y = x + x
        z = y.view(4)
        w = z[1:3]
        w.add_(1)
        z[0].mul_(2)
        return w, z, y

    @case(2, 2)
    def detached(x):
        y = x.detach()
        y.add_(1)
        return x * 2

    @case(4)
    def aliases(x):
        y = torch.ops.aten.alias(x)
        y.mul_(2)
        return x

    @case(4, dtype="complex64")
    def view_as_real(x):
        torch.view_as_real(x).add_(1)
        return x

    @case(4, 2)
    def view_as_complex(x):
        torch.view_as_complex(x).mul_(2)
        return x

    @case(2, 2)
    def reshape(x):
        y = x.t().reshape(4)
        y.add_(1)
        return x, y

    @case(2, 2)
    def only_results(x):
        return x.sin() + x.cos()

    @case(4)
    def no_write_to_argument(x):
        y = x * 2
        y.add_(x)
        y.sub_(x, alpha=2)
        return y

    @case(4)
    def aliased_results(x):
        y = x.view(2, 2)
        x.add_(1)
        return x, y, y.view(4)

    @case(4)
    def resized(x):
        y = torch.empty(0)
        y.resize_(4)
        y.copy_(x)
        return y

    @case(4, 3)
    def narrowed(x):
        x.narrow(0, 1, 2).add_(1)
        return x.chunk(2)[1]

    @case(2, 3)
    def sums_in_place(x):
        x.cumsum_(1)
        x.clamp_(max=3)
        x.addcmul_(x, x)
        return x

    @case(2, 3)
    def linear_in_place(x):
        w = torch.ones(3, 3)
        y = torch.mm(x, w)
        y.relu_()
        return torch.nn.functional.dropout(y, 0.0, training=False, inplace=True)

    return found
