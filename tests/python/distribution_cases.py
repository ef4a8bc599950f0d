"""What is asked of every distribution: values that a module gives, as plain numbers."""

CASES = {
    "Bernoulli": ["0.3", "T([.1, .5, .9])", "logits=T([[-1., 0.], [2., .5]])"],
    "Beta": ["2., 3.", "T([.5, 1., 4.]), T([.5, 2., 1.5])"],
    "Binomial": ["5, T([.1, .5, .9])", "T([3., 30., 100.]), T([.2, .5, .75])", "40, logits=T([.3])"],
    "Categorical": ["T([.1, .2, .7])", "logits=T([[.1, .2, .7], [3., 2., 1.]])"],
    "Cauchy": ["0., 1.", "T([1., -1.]), T([.5, 2.])"],
    "Chi2": ["3.", "T([.5, 2., 40.])"],
    "ContinuousBernoulli": ["T([.1, .5, .9])", "logits=T([-1., .001, 2.])"],
    "Dirichlet": ["T([.5, 1., 3.])", "T([[2., 3.], [.4, .3]])"],
    "Exponential": ["2.", "T([.5, 3.])"],
    "FisherSnedecor": ["T([1., 5., 9.]), T([2., 5., 11.])"],
    "Gamma": ["2., 3.", "T([.2, 1., 5., 60.]), T([1., 2., .5, 3.])"],
    "GeneralizedPareto": ["T([0., 1.]), T([1., 2.]), T([.3, 0.])", "0., 1., -.4"],
    "Geometric": [".3", "T([.2, .9])", "logits=T([.2, .9])"],
    "Gumbel": ["0., 1.", "T([1., -2.]), T([.5, 2.])"],
    "HalfCauchy": ["1.", "T([.5, 2.])"],
    "HalfNormal": ["1.", "T([.5, 2.])"],
    "InverseGamma": ["T([.7, 1.5, 4.]), T([1., 2., .5])"],
    "Kumaraswamy": ["T([.7, 1.5, 4.]), T([1., 2., .5])"],
    "Laplace": ["0., 1.", "T([1., -1.]), T([.5, 2.])"],
    "LKJCholesky": ["3, 1.5", "4, T([.5, 2.])"],
    "LogNormal": ["0., 1.", "T([1., -1.]), T([.5, 2.])"],
    "LogisticNormal": ["T([0., 1.]), T([1., .5])"],
    "LowRankMultivariateNormal": [
        "torch.zeros(3), T([[1.], [.5], [-2.]]), T([1., .3, 2.])",
        "T([[0., 1.], [2., 3.]]), T([[1.], [.5]]), T([[1., .3], [.4, .5]])",
    ],
    "MultivariateNormal": [
        "T([1., -1.]), T([[2., .5], [.5, 1.]])",
        "T([[1., -1.], [0., 3.], [.1, .2]]), precision_matrix=T([[2., .5], [.5, 1.]])",
        "torch.zeros(2), scale_tril=T([[[1., 0.], [.5, .3]], [[2., 0.], [-1., 1.]]])",
    ],
    "Multinomial": ["5, T([.1, .2, .7])", "3, logits=T([[.1, .2], [1., 3.]])"],
    "NegativeBinomial": ["T([3., 8.]), T([.3, .6])", "2., logits=T([-.5, .3])"],
    "Normal": ["0., 1.", "T([1., -1., 3.]), T([.5, 2., 1.])", "torch.zeros(5, 4), torch.ones(4)"],
    "OneHotCategorical": ["T([.1, .2, .7])", "logits=T([[.1, .2, .7], [3., 2., 1.]])"],
    "OneHotCategoricalStraightThrough": ["T([.1, .2, .7])"],
    "Pareto": ["T([1., 2.]), T([.5, 3.])"],
    "Poisson": ["3.", "T([.1, 2., 9.9, 10., 15., 300.])"],
    "RelaxedBernoulli": ["T(.7), T([.1, .9])", "T(2.), logits=T([.1, .9])"],
    "RelaxedOneHotCategorical": ["T(.7), T([.1, .2, .7])"],
    "StudentT": ["T([.5, 1.5, 9.]), T([0., 1., 2.]), T([1., 2., .5])"],
    "Uniform": ["0., 1.", "T([1., -1.]), T([3., 2.])"],
    "VonMises": ["T([0., 1.]), T([.5, 20.])"],
    "Weibull": ["T([1., 2.]), T([.5, 3.])"],
    "Wishart": ["T(4.), torch.eye(2)", "T([3., 5.]), scale_tril=T([[1., 0.], [.3, .5]])"],
    "Independent": ["d.Normal(T([[0., 1.], [2., 3.]]), 1.), 1", "d.Beta(T([.5, 2.]), 1.), 1"],
    "MixtureSameFamily": [
        "d.Categorical(T([.2, .8])), d.Normal(T([0., 3.]), T([1., .5]))",
        "d.Categorical(T([[.2, .8], [.5, .5]])), "
        "d.Independent(d.Normal(T([[[0., 3.], [1., 2.]], [[1., 1.], [0., 5.]]]), 1.), 1)",
    ],
    "TransformedDistribution": [
        "d.Normal(T([0., 1.]), 1.), [d.AffineTransform(1., -2.), d.ExpTransform()]",
        "d.Normal(torch.zeros(3), 1.), [d.StickBreakingTransform()]",
        "d.Uniform(torch.zeros(2), 1.), [d.SigmoidTransform().inv, d.TanhTransform()]",
    ],
}

TRANSFORMS = {
    "AbsTransform()": "T([-1., 2.])", "AffineTransform(1., T([2., -3.]))": "T([-1., 2.])",
    "ExpTransform()": "T([-1., 2.])", "PowerTransform(T(2.5))": "T([.3, 2.])",
    "SigmoidTransform()": "T([-1., 2.])", "SoftplusTransform()": "T([-1., 2.])",
    "TanhTransform()": "T([-1., 2.])", "SoftmaxTransform()": "T([-1., 2., .5])",
    "StickBreakingTransform()": "T([[-1., 2., .5], [.1, .2, .3]])",
    "LowerCholeskyTransform()": "T([[1., 2.], [3., -1.]])",
    "PositiveDefiniteTransform()": "T([[1., 2.], [3., -1.]])",
    "CorrCholeskyTransform()": "T([[.1, -.7, .5], [1., 2., 3.]])",
    "ReshapeTransform((2, 2), (4,))": "T([[1., 2.], [3., -1.]])",
    "CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [1, 2])": "T([1., .2, .3])",
    "StackTransform([d.ExpTransform(), d.TanhTransform()], 1)": "T([[1., .2], [.3, .4]])",
    "CumulativeDistributionTransform(d.Normal(0., 1.))": "T([-1., 2.])",
    "ComposeTransform([d.ExpTransform(), d.AffineTransform(1., 2.)])": "T([-1., 2.])",
    "IndependentTransform(d.ExpTransform(), 1)": "T([[1., .2], [.3, .4]])",
    "ExpTransform().inv": "T([.3, 2.])",
}


def plain(value):
    """Numbers of tensors in nested lists; infinities and NaN by name, as JSON has none."""
    if hasattr(value, "tolist"):
        return [list(value.shape), str(value.dtype).split(".")[-1], plain(value.tolist())]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return repr(value) if value != value or value in (float("inf"), -float("inf")) else value
    return value


def attempt(function):
    """The result in plain numbers, or the kind of the error."""
    try:
        return plain(function())
    except (NotImplementedError, ValueError, RuntimeError, TypeError) as error:
        return type(error).__name__


def _gradients(torch, dist):
    """Of a reparameterised sample in the parameters."""
    names = [name for name in dist.arg_constraints if name in dist.__dict__]
    leaves = {name: getattr(dist, name).detach().clone().requires_grad_() for name in names}
    torch.manual_seed(3)
    if not dist.has_rsample or not leaves or hasattr(dist, "base_dist"):
        return None
    if type(dist).__name__ == "Wishart":
        return None
    again = type(dist)(**leaves)
    sample = again.rsample((2,))
    weights = torch.arange(1.0, 1 + sample.numel()).reshape(sample.shape)
    return list(torch.autograd.grad((sample * weights).sum(), list(leaves.values())))


def record_distribution(torch, d, name, arguments):
    """Everything that one distribution says."""
    environment = {"torch": torch, "d": d, "T": torch.tensor}
    dist = eval(f"d.{name}({arguments})", environment)
    seen = {"repr": repr(dist), "batch": list(dist.batch_shape), "event": list(dist.event_shape)}
    for attribute in ("mean", "mode", "variance", "stddev"):
        seen[attribute] = attempt(lambda: getattr(dist, attribute))
    torch.manual_seed(0)
    seen["sample"] = attempt(lambda: dist.sample())
    sample = dist.sample((3,))
    seen["samples"] = plain(sample)
    seen["rsample"] = attempt(lambda: dist.rsample((2,)))
    seen["gradients"] = attempt(lambda: _gradients(torch, dist))
    seen["log_prob"] = attempt(lambda: dist.log_prob(sample))
    seen["cdf"] = attempt(lambda: dist.cdf(sample))
    shape = (2, *dist.batch_shape)
    quantiles = torch.linspace(0.1, 0.9, torch.Size(shape).numel()).reshape(shape)
    seen["icdf"] = attempt(lambda: dist.icdf(quantiles))
    seen["entropy"] = attempt(lambda: dist.entropy())
    seen["enumerate"] = attempt(lambda: dist.enumerate_support())
    seen["enumerate_narrow"] = attempt(lambda: dist.enumerate_support(expand=False))
    wide = dist.expand((2, *dist.batch_shape))
    seen["expanded"] = attempt(lambda: wide.log_prob(sample[:2]))
    seen["expanded_shape"] = [list(wide.batch_shape), list(wide.event_shape), type(wide).__name__]
    torch.manual_seed(1)
    seen["expanded_sample"] = attempt(lambda: wide.sample())
    return seen


def record_transform(torch, d, name, x):
    """Both directions of a transform, its change of volume and its shapes."""
    environment = {"torch": torch, "d": d, "T": torch.tensor}
    transform = eval(f"d.{name}", environment)
    x = eval(x, environment)
    y = transform(x)
    return {
        "y": plain(y), "x": attempt(lambda: transform.inv(y)),
        "volume": attempt(lambda: transform.log_abs_det_jacobian(x, y)),
        "shape": attempt(lambda: list(transform.forward_shape(x.shape))),
        "back": attempt(lambda: list(transform.inverse_shape(y.shape))),
        "domain": repr(transform.domain), "codomain": repr(transform.codomain),
        "sign": attempt(lambda: transform.sign), "bijective": transform.bijective,
    }


def _kl_instances(torch, d):
    made = {}
    for name, cases in CASES.items():
        environment = {"torch": torch, "d": d, "T": torch.tensor}
        made[name] = eval(f"d.{name}({cases[-1]})", environment)
    return made


def record_divergences(torch, d):
    """The divergence of every pair for which one is defined."""
    seen, made = {}, _kl_instances(torch, d)
    for p_name, p in made.items():
        for q_name, q in made.items():
            result = attempt(lambda: d.kl_divergence(p, q))
            if result != "NotImplementedError":
                seen[f"{p_name} {q_name}"] = result
    return seen


def record(torch):
    """Everything, by case."""
    d = torch.distributions
    seen = {
        f"{name}({arguments})": record_distribution(torch, d, name, arguments)
        for name, cases in CASES.items() for arguments in cases
    }
    for name, x in TRANSFORMS.items():
        seen[name] = record_transform(torch, d, name, x)
    seen["divergences"] = record_divergences(torch, d)
    return seen
