"""tests/goldens/semantics/functions.txt: sorting, counting, special functions, shape tools, images."""

from semantics import write

X = "x = torch.tensor([[3., 1., nan, 1.], [-0., 0., -inf, inf]])"
N = "n = torch.tensor([5, 1, 5, 2, 2, 1, 9])"
P = "p = torch.tensor([0., 0.5, 1., 2.5, -0.5, -2.5, 7., 30., inf, -inf, nan], dtype=torch.float64)"
I = "i = torch.arange(12.).reshape(1, 1, 3, 4)"

SECTIONS = {
    "sorting": ("contents", [f"{X}; {e}" for e in (
            "x.sort()", "x.sort(0, descending=True)", "x.sort(3)", "x.argsort(stable=True)",
            "torch.msort(x)", "x.topk(2)", "x.topk(9)", "x.topk(1, 0, False)", "x.kthvalue(2)",
            "x.kthvalue(0)", "x.median()", "x.nanmedian()", "x.median(1)", "x.nanmedian(1)",
            "x.mode()", "x.mode(0, True)", "torch.unique(x)", "torch.unique(x, dim=1)",
            "torch.unique_consecutive(x, return_counts=True)")]
        + [f"{N}; {e}" for e in ("n.sort()", "n.unique(return_inverse=True, return_counts=True)",
            "n.unique_consecutive(return_inverse=True)", "n.median()", "n.mode()", "n.topk(3)",
            "n.to(torch.complex64).sort()", "n.bool().topk(1)")]
        + [f"q = torch.tensor([1., 2., 4., 8.]); {e}" for e in ("q.quantile(0.3)",
            "q.quantile(torch.tensor([0., 0.5, 1.]))", "q.quantile(1.5)", "q.half().quantile(0.5)",
            "q.quantile(0.3, interpolation='nearest')", "q.nanquantile(0.5, 0, True)",
            "q.quantile(0.5, interpolation='x')")]),
    "counting": ("contents", [
            "torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([[0, 3], [4, 9]]))",
            "torch.searchsorted(torch.tensor([1., 3., nan]), torch.tensor([3., nan]), right=True)",
            "torch.searchsorted(torch.ones(2, 3), torch.ones(3, 2))",
            "torch.bucketize(torch.tensor([1.5, 3.]), torch.tensor([1., 2., 3.]), out_int32=True)",
            "torch.isin(torch.tensor([1, 2, 3]), torch.tensor([1., 3.]), invert=True)",
            "torch.isin(torch.tensor([True]), torch.tensor([True]))",
            "torch.bincount(torch.tensor([1, 1, 4]), minlength=7)",
            "torch.bincount(torch.tensor([1, 0]), torch.tensor([0.5, 2.]))",
            "torch.bincount(torch.tensor([-1]))", "torch.histc(torch.tensor([1., 2., nan, 4.]), 4, 0, 4)",
            "torch.histc(torch.tensor([1., inf]), 4)",
            "torch.histogram(torch.tensor([1., 2., 4.]), 3, density=True)",
            "torch.histogramdd(torch.tensor([[0., 1.], [2., 2.]]), [2, 1])[0]",
            "torch.histogram(torch.tensor([1.]), 0)"]),
    "special functions": ("contents", [f"{P}; {e}.nan_to_num(9., 8., 7.).mul(1e9).round()" for e in (
            "p.lgamma()", "p.digamma()", "torch.polygamma(2, p[1:4])", "torch.i0(p[:7])",
            "torch.special.i0e(p)", "torch.special.i1e(p)", "torch.special.ndtri(p)",
            "torch.special.erfcx(p[3:8])", "torch.special.log_ndtr(p[:6])", "torch.erfinv(p)",
            "torch.special.modified_bessel_k0(p)", "torch.special.spherical_bessel_j0(p)",
            "torch.special.xlog1py(p, p)", "torch.igamma(p, p.abs())", "torch.igammac(p, p.abs())",
            "torch.special.zeta(p, p)", "torch.special.chebyshev_polynomial_u(p[:6], 3)",
            "torch.special.hermite_polynomial_he(p[:6], 4)",
            "torch.special.laguerre_polynomial_l(p[:6], 3)")]
        + ["torch.gcd(torch.tensor([-4, 0, 6]), torch.tensor([6, 0, 0]))",
            "torch.lcm(torch.tensor([127], dtype=torch.int8), torch.tensor([126], dtype=torch.int8))",
            "torch.gcd(torch.ones(1), torch.ones(1))", "torch.polygamma(-1, torch.ones(1))",
            "torch.nextafter(torch.tensor([0., 1., 1., nan]), torch.tensor([-1., 2., 1., 0.]))",
            "torch.frexp(torch.tensor([0., 8., -0.3, inf]))", "torch.frexp(torch.tensor([1]))",
            "torch.mvlgamma(torch.ones(1), 0)"]),
    "shape tools": ("contents", [
            "torch.diff(torch.tensor([1, 4, 9]), 2)", "torch.diff(torch.tensor(1.))",
            "torch.gradient(torch.tensor([1., 2., 4., 8.]), edge_order=2)",
            "torch.trapezoid(torch.tensor([1, 2, 3]), torch.tensor([0, 1, 3]))",
            "torch.cumulative_trapezoid(torch.tensor([1., 2., 3.]))",
            "torch.cov(torch.tensor([[1., 2., 6.], [3., 1., 2.]]))",
            "torch.combinations(torch.arange(3), 2, True)", "torch.trace(torch.ones(2, 3))",
            "torch.kron(torch.tensor([1, 2]), torch.tensor([[1], [3]]))",
            "torch.linalg.cross(torch.tensor([1., 2., 3.]), torch.tensor([0., 1., 0.]))",
            "torch.renorm(torch.tensor([[3., 4.], [0.3, 0.4]]), 2, 0, 1.)",
            "torch.cdist(torch.tensor([[0., 0.], [1., 1.]]), torch.tensor([[3., 4.]]), 1.)",
            "torch.nn.functional.pdist(torch.tensor([[0., 0.], [3., 4.], [0., 1.]]))",
            "torch.nn.functional.pixel_shuffle(torch.arange(8).reshape(1, 4, 1, 2), 2)",
            "torch.nn.functional.pixel_shuffle(torch.ones(3, 1, 1), 2)",
            "torch.empty_permuted((2, 3), (1, 1))", "torch.linalg.vander(torch.tensor([1, 2, 3]))",
            "torch.hann_window(4)", "torch.hann_window(-1)",
            "torch.signal.windows.bartlett(4)", "torch.hash_tensor(torch.tensor([1, 2, 4]))"]),
    "images": ("contents", [f"{I}; torch.nn.functional.{e}" for e in (
            "interpolate(i, scale_factor=2)", "interpolate(i, (2, 2), mode='bilinear')",
            "interpolate(i, (5, 5), mode='bilinear', align_corners=True).mul(64).round()",
            "interpolate(i, (2, 3), mode='nearest-exact')", "interpolate(i, (2, 2), mode='area')",
            "interpolate(i.byte(), (5, 5), mode='bilinear')", "interpolate(i, 3, mode='linear')",
            "interpolate(i, (2, 2), mode='bilinear', antialias=True).mul(64).round()",
            "max_unpool2d(i[..., :1, :2], torch.tensor([[[[5, 2]]]]), 2)",
            "grid_sample(i, torch.tensor([[[[0., 0.], [1., -1.], [2., 0.]]]]), align_corners=True)",
            "grid_sample(i, torch.zeros(1, 1, 1, 3), align_corners=True)",
            "affine_grid(torch.tensor([[[1., 0., 0.], [0., 1., 0.]]]), (1, 1, 2, 2), True)",
            "glu(i)", "glu(i[..., :3])", "prelu(i - 5, torch.tensor([0.5]))",
            "multi_margin_loss(i[0, 0], torch.tensor([0, 1, 3]))",
            "multi_margin_loss(i[0, 0], torch.tensor([0, 1, 4]))")]),
}

if __name__ == "__main__":
    write("functions", SECTIONS)
