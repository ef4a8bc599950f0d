"""The older spectral normalisation, by a hook before each forward."""

from __future__ import annotations

import corten
from corten.nn import functional as F
from corten.nn.parameter import Parameter, refuse_uninitialized

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """Computes ``name`` as ``name_orig`` over its largest singular value before each forward."""

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim = name, dim
        self.n_power_iterations, self.eps = n_power_iterations, eps

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).reshape(weight.size(self.dim), -1)

    def compute_weight(self, module, do_power_iteration):
        """The normalised weight, after refining the estimate."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self._matrix(weight)
        if do_power_iteration:
            with corten.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(corten.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(corten.mv(matrix, v), dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()
        return weight / corten.dot(u, corten.mv(matrix, v))

    #: States of this version have both vectors.
    _version = 1

    @staticmethod
    def _solved_v(matrix, u, sigma):
        """The vector ``v`` with ``u @ matrix @ v == sigma``."""
        v = corten.linalg.multi_dot([corten.linalg.pinv(matrix.t() @ matrix), matrix.t(), u.unsqueeze(1)]).squeeze(1)
        return v * (sigma / corten.dot(u, corten.mv(matrix, v)))

    @classmethod
    def apply(cls, module, name, n_power_iterations, dim, eps):
        """Renames the weight of ``module`` and hooks the computation in."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, cls) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        fn = cls(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        refuse_uninitialized(weight, cls.__name__, "spectral")
        with corten.no_grad():
            rows, cols = fn._matrix(weight).size()
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(cols).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(_VersionHook(fn))
        module._register_load_state_dict_pre_hook(_OlderVersions(fn))
        return fn

    def remove(self, module):
        """Makes the weight one parameter again."""
        with corten.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, self.name + "_u", self.name + "_v", self.name + "_orig"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, module.training))


class _VersionHook:
    """Notes in a state how it was made."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, module, state_dict, prefix, local_metadata):
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


class _OlderVersions:
    """Completes states from before there was a vector ``v``: it is the one for which ``u`` and the weight that was
    saved give the norm by which that was divided."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        fn, version = self.fn, local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        original, u = state_dict.get(key + "_orig"), state_dict.get(key + "_u")
        if version is None and key not in state_dict and key + "_v" in state_dict and original is not None:
            return
        absent = [key + end for end in ("_orig", "", "_u") if key + end not in state_dict]
        if absent:
            missing_keys.extend(absent if strict else ())
            return
        with corten.no_grad():
            weight, matrix = state_dict.pop(key), fn._matrix(original)
            sigma = (original / weight).mean()
            state_dict[key + "_v"] = fn._solved_v(matrix, u, sigma)


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Older form of ``parametrizations.spectral_norm``."""
    from corten import nn

    if dim is None:
        transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
        dim = 1 if isinstance(module, transposed) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """Undoes :func:`spectral_norm`."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
