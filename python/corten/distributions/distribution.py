"""The interface of distributions."""

from __future__ import annotations

import warnings

import corten
from corten import Size

from . import constraints
from .utils import _LazyPropertyOfClass, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A batch of independent distributions over events.

    Samples have the shape ``sample_shape + batch_shape + event_shape``. Subclasses name their
    parameters in ``arg_constraints``; a subclass that gives their event dimensions in ``_events``
    gets :meth:`expand` from here.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    #: Attributes that :meth:`expand` expands, and how many event dimensions each has.
    _events = None

    @staticmethod
    def set_default_validate_args(value):
        """Whether distributions check parameters and values when nothing else is said."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=Size(), event_shape=Size(), validate_args=None):
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self):
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            expected = {}
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints "
                "= {}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
                stacklevel=2,
            )
        for param, constraint in expected.items():
            if constraints.is_dependent(constraint):
                continue
            shown = getattr(type(self), param, None)
            if param not in self.__dict__ and isinstance(shown, _LazyPropertyOfClass):
                continue  # not computed yet
            value = getattr(self, param)
            valid = constraint.check(value)
            if not valid.all():
                raise ValueError(
                    f"Expected parameter {param} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape, _instance=None):
        """The same distributions with parameters expanded to another batch shape."""
        owner = next((c for c in type(self).__mro__ if "_events" in vars(c)), Distribution)
        if owner._events is None:
            raise NotImplementedError
        new = self._get_checked_instance(owner, _instance)
        self._expand_into(new, Size(batch_shape), owner._events)
        return new

    def _expand_into(self, new, batch_shape, events):
        for name, event_dims in events.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                event = value.shape[value.dim() - event_dims:]
                new.__dict__[name] = value.expand(batch_shape + event)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args

    @property
    def batch_shape(self):
        """The shape over which parameters vary."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one sample."""
        return self._event_shape

    @property
    def arg_constraints(self):
        """The constraint of each parameter."""
        raise NotImplementedError

    @property
    def support(self):
        """The constraint of samples."""
        raise NotImplementedError

    @property
    def mean(self):
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self):
        """The place of greatest density."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self):
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape=Size()):
        """Samples without gradients."""
        with corten.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        """Samples through which gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n):
        """Deprecated: ``sample((n,))``."""
        warnings.warn(
            "sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2
        )
        return self.sample(Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density at ``value``, of shape ``sample_shape + batch_shape``."""
        raise NotImplementedError

    def cdf(self, value):
        """The probability of samples up to ``value``."""
        raise NotImplementedError

    def icdf(self, value):
        """The inverse of :meth:`cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All the values of a discrete distribution along a new first dimension."""
        raise NotImplementedError

    def entropy(self):
        """The entropy in nats."""
        raise NotImplementedError

    def perplexity(self):
        """The exponential of the entropy."""
        return corten.exp(self.entropy())

    def _extended_shape(self, sample_shape=Size()):
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        return Size(sample_shape + self._batch_shape + self._event_shape)

    def _validate_sample(self, value):
        """Raises a ``ValueError`` unless ``value`` can be a sample."""
        if not isinstance(value, corten.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = len(self._event_shape)
        if value.dim() < events or value.size()[value.dim() - events:] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.size()} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for given, own in zip(reversed(value.size()), reversed(expected)):
            if given != 1 and own != 1 and given != own:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.size()} vs {expected}."
                )
        self._validate_support(value)

    def _validate_support(self, value):
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        valid = support.check(value)
        if not valid.all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def __repr__(self):
        def shown(value):
            return value if value.numel() == 1 else value.size()

        names = [name for name in self.arg_constraints if name in self.__dict__]
        return type(self).__name__ + "(" + ", ".join(
            f"{name}: {shown(self.__dict__[name])}" for name in names
        ) + ")"


class ProbsOrLogits(Distribution):
    """A distribution given by probabilities or by logarithms, each computed from the other."""

    _is_binary = True

    def _set_one_of(self, probs, logits):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @lazy_property
    def logits(self):
        """Logarithms of odds, or of unnormalised probabilities."""
        from .utils import probs_to_logits

        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self):
        """Probabilities."""
        from .utils import logits_to_probs

        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def param_shape(self):
        """The shape of the parameter that was given."""
        return self._param.size()

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)
