"""Hooks of modules: their registration, and calling a module that has some."""

from __future__ import annotations

import warnings
from collections import OrderedDict

import corten
from corten.utils.hooks import RemovableHandle

_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_forward_pre_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()

#: Whether the global backward hooks get the gradients of a module's inputs; None before the first.
_global_is_full = None

_CALL_HOOKS = (
    _global_backward_pre_hooks, _global_backward_hooks, _global_forward_hooks,
    _global_forward_pre_hooks,
)


def _register(hooks, hook, *, marks=(), prepend=False):
    handle = RemovableHandle(hooks, extra_dict=marks or None)
    hooks[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_forward_pre_hook(hook):
    """Calls ``hook(module, args)`` before every module's forward."""
    return _register(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Calls ``hook(module, args, output)`` after every module's forward."""
    marks = [_global_forward_hooks_with_kwargs] if with_kwargs else []
    if always_call:
        marks.append(_global_forward_hooks_always_called)
    return _register(_global_forward_hooks, hook, marks=marks)


def _register_global_backward(hook, full):
    global _global_is_full
    if _global_backward_hooks and _global_is_full is not None and _global_is_full is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    _global_is_full = full
    return _register(_global_backward_hooks, hook)


def register_module_full_backward_hook(hook):
    """Calls ``hook(module, grad_input, grad_output)`` when a module's input gradients are known."""
    return _register_global_backward(hook, full=True)


def register_module_full_backward_pre_hook(hook):
    """Calls ``hook(module, grad_output)`` when a module's output gradients are known."""
    return _register(_global_backward_pre_hooks, hook)


def register_module_backward_hook(hook):
    """Older form of :func:`register_module_full_backward_hook`, on the last operation only."""
    return _register_global_backward(hook, full=False)


def register_module_parameter_registration_hook(hook):
    """Calls ``hook(module, name, param)`` when a parameter is registered anywhere."""
    return _register(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook):
    """Calls ``hook(module, name, buffer)`` when a buffer is registered anywhere."""
    return _register(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """Calls ``hook(module, name, submodule)`` when a child is registered anywhere."""
    return _register(_global_module_registration_hooks, hook)


def _replaced(hooks, module, name, value):
    for hook in hooks.values():
        other = hook(module, name, value)
        value = value if other is None else other
    return value


class HookMixin:
    """What a module offers for watching and changing its calls."""

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls ``hook(module, args)`` before forward; a result replaces the arguments."""
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return _register(self._forward_pre_hooks, hook, marks=marks, prepend=prepend)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Calls ``hook(module, args, output)`` after forward; a result replaces the output."""
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        if always_call:
            marks.append(self._forward_hooks_always_called)
        return _register(self._forward_hooks, hook, marks=marks, prepend=prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Calls ``hook(module, grad_output)`` before the module's gradients are computed."""
        return _register(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """Calls ``hook(module, grad_input, grad_output)`` after them; a result replaces grad_input."""
        self._set_hook_kind(full=True)
        return _register(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook):
        """Older form of :meth:`register_full_backward_hook`, on the last operation only."""
        self._set_hook_kind(full=False)
        return _register(self._backward_hooks, hook)

    def _set_hook_kind(self, full):
        if self._is_full_backward_hook is not None and self._is_full_backward_hook != full:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self._is_full_backward_hook = full

    def _call_with_hooks(self, args, kwargs):
        ran_always = set()
        try:
            return self._hooked_forward(args, kwargs, ran_always)
        except Exception:
            self._run_always_called(args, kwargs, ran_always)
            raise

    def _hooked_forward(self, args, kwargs, ran):
        args, kwargs = self._run_pre_hooks(args, kwargs)
        wiring = self._backward_wiring()
        if wiring is not None:
            args = wiring.wrap_inputs(args)
        result = self.forward(*args, **kwargs)
        result = self._run_forward_hooks(args, kwargs, result, ran)
        if wiring is not None:
            result = wiring.wrap_outputs(result)
        hooks = self._chosen_backward_hooks(full=False)
        if hooks:
            _attach_non_full_hooks(self, hooks, args, result)
        return result

    def _chosen_backward_hooks(self, full):
        """The backward hooks of one kind, global ones first."""
        chosen = []
        if _global_is_full is full:
            chosen += _global_backward_hooks.values()
        if self._is_full_backward_hook is full:
            chosen += self._backward_hooks.values()
        return chosen

    def _run_pre_hooks(self, args, kwargs):
        chain = [(hook, False) for hook in _global_forward_pre_hooks.values()]
        marks = self._forward_pre_hooks_with_kwargs
        chain += [(hook, key in marks) for key, hook in self._forward_pre_hooks.items()]
        for hook, with_kwargs in chain:
            if with_kwargs:
                answer = hook(self, args, kwargs)
                if answer is None:
                    continue
                if not (isinstance(answer, tuple) and len(answer) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {answer}."
                    )
                args, kwargs = answer
            else:
                answer = hook(self, args)
                if answer is not None:
                    args = answer if isinstance(answer, tuple) else (answer,)
        return args, kwargs

    def _forward_hook_chain(self):
        for hooks, with_kwargs, always in (
            (_global_forward_hooks, _global_forward_hooks_with_kwargs,
             _global_forward_hooks_always_called),
            (self._forward_hooks, self._forward_hooks_with_kwargs,
             self._forward_hooks_always_called),
        ):
            for key, hook in list(hooks.items()):
                yield key, hook, key in with_kwargs, key in always

    def _run_forward_hooks(self, args, kwargs, result, ran):
        for key, hook, with_kwargs, always in self._forward_hook_chain():
            if always:
                ran.add(key)
            if with_kwargs:
                answer = hook(self, args, kwargs, result)
            else:
                answer = hook(self, args, result)
            if answer is not None:
                result = answer
        return result

    def _run_always_called(self, args, kwargs, ran):
        """After a failure: the hooks that asked to run regardless and have not run."""
        for key, hook, with_kwargs, always in self._forward_hook_chain():
            if not always or key in ran:
                continue
            try:
                hook(self, args, kwargs, None) if with_kwargs else hook(self, args, None)
            except Exception as error:
                warnings.warn(
                    "forward hook with ``always_call=True`` raised an exception that was silenced "
                    f"as another error was raised in forward: {error}",
                    stacklevel=2,
                )

    def _backward_wiring(self):
        pre = [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        full = self._chosen_backward_hooks(full=True)
        return _BackwardWiring(self, full, pre) if pre or full else None


class _BackwardWiring:
    """Identity nodes around one call of a module, where its backward hooks run.

    The node behind the outputs sees the gradients of the outputs first; the node before the inputs
    sees the gradients of the inputs last.
    """

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs = None
        self.input_places = None
        self.output_places = None

    def wrap_inputs(self, args):
        args, self.input_places, node = _through_identity(args)
        self.n_inputs = len(args)
        if node is None:
            self.input_places = None
        else:
            node.register_hook(self._inputs_done)
        return args

    def wrap_outputs(self, result):
        if not isinstance(result, (corten.Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=5,
            )
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        outputs, self.output_places, node = _through_identity(outputs)
        self.n_outputs = len(outputs)
        if node is not None:
            node.register_prehook(self._outputs_known)
        if not isinstance(result, tuple):
            return outputs[0]
        # A named tuple stays one.
        return type(result)(*outputs) if hasattr(result, "_fields") else outputs

    def _outputs_known(self, grads):
        grads = _spread(grads, self.output_places, self.n_outputs)
        for hook in self.pre_hooks:
            grads = _checked_replacement(hook(self.module, grads), grads, "grad_output")
        self.grad_outputs = grads
        if self.input_places is None:
            # No input needs a gradient: this is the last moment the hooks can be called.
            for hook in self.hooks:
                answer = hook(self.module, (None,) * self.n_inputs, grads)
                if answer is not None and any(grad is not None for grad in answer):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
            self.grad_outputs = None
        return tuple(grads[place] for place in self.output_places)

    def _inputs_done(self, grad_inputs, _):
        if self.grad_outputs is None:
            raise RuntimeError(
                "Module backward hook for grad_input is called before the grad_output one. This "
                "happens because the gradient in your nn.Module flows to the Module's input "
                "without passing through the Module's output."
            )
        grads = _spread(grad_inputs, self.input_places, self.n_inputs)
        for hook in self.hooks:
            grads = _checked_replacement(
                hook(self.module, grads, self.grad_outputs), grads, "grad_input"
            )
        self.grad_outputs = None
        return tuple(grads[place] for place in self.input_places)


def _spread(grads, places, count):
    spread = [None] * count
    for place, grad in zip(places, grads):
        spread[place] = grad
    return tuple(spread)


def _checked_replacement(answer, grads, what):
    if answer is None:
        return grads
    answer = answer if isinstance(answer, tuple) else (answer,)
    if len(answer) != len(grads):
        raise RuntimeError(
            f"Backward hook returned an invalid number of {what}, got {len(answer)}, but expected "
            f"{len(grads)}"
        )
    return answer


def _through_identity(values):
    """Passes the tensors among `values` through one autograd node: new values, places, node."""
    places = [i for i, value in enumerate(values) if isinstance(value, corten.Tensor)]
    wants_grad = any(values[place].requires_grad for place in places)
    if not wants_grad or not corten.is_grad_enabled():
        return values, [], None
    passed = _identity_function().apply(*(values[place] for place in places))
    passed = passed if isinstance(passed, tuple) else (passed,)
    values = list(values)
    for place, tensor in zip(places, passed):
        values[place] = tensor
    node = next(tensor.grad_fn for tensor in passed if tensor.grad_fn is not None)
    return tuple(values), places, node


_Identity = None


def _identity_function():
    global _Identity
    if _Identity is None:

        class BackwardHookFunction(corten.autograd.Function):
            """Returns its tensors unchanged, as views, so that a node stands in the graph."""

            @staticmethod
            def forward(ctx, *tensors):
                ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
                return tuple(t.view_as(t) if t.requires_grad else t for t in tensors)

            @staticmethod
            def backward(ctx, *grads):
                return grads

        _Identity = BackwardHookFunction
    return _Identity


def _attach_non_full_hooks(module, hooks, inputs, result):
    value = result
    while not isinstance(value, corten.Tensor):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    node = value.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda grad_in, grad_out, hook=hook: hook(module, grad_in, grad_out))
    _warn_of_non_full_hooks(inputs, result, node)


def _all_tensors(values):
    return all(isinstance(one, corten.Tensor) for one in values)


def _warn_of_non_full_hooks(inputs, result, node):
    """Says where hooks on the last operation do not see the gradients of a module's inputs."""

    def warn(where, missing):
        warnings.warn(
            f"Using {where} is deprecated and will be removed in future versions. This hook will be "
            f"missing some {missing}. Please use register_full_backward_hook to get the documented "
            "behavior.",
            FutureWarning,
            stacklevel=6,
        )

    hook = "a non-full backward hook when"
    module = "non-full backward hooks on a Module that does not"
    results = result if isinstance(result, tuple) else (result,)
    if not _all_tensors(results):
        warn(f"{module} return a single Tensor or a tuple of Tensors", "of the grad_output")
    elif not _all_tensors(inputs):
        warn(f"{module} take as input a single Tensor or a tuple of Tensors", "of the grad_input")
    elif len({one.grad_fn for one in results}) > 1:
        warn(f"{hook} outputs are generated by different autograd Nodes", "grad_output")
    elif not _starts_at(node, inputs):
        warn(f"{hook} the forward contains multiple autograd Nodes", "grad_input")


def _starts_at(node, inputs):
    """Whether the inputs' nodes are those before a module's last operation."""
    before = {previous for previous, _ in node.next_functions}
    return {one.grad_fn for one in inputs if one.grad_fn is not None} <= before


_GLOBAL_HOOKS = [
    name for name, value in globals().items()
    if name.startswith("_global_") and isinstance(value, OrderedDict)
]


class HookNames(type(warnings)):
    """The class of a module that has the global hooks too: assigning a dictionary to one of their names
    replaces what the hooks' own holds, as calls of modules ask that one."""

    def __getattr__(self, name):
        if name in _GLOBAL_HOOKS:
            return globals()[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name, value):
        if name not in _GLOBAL_HOOKS:
            return super().__setattr__(name, value)
        hooks, value = globals()[name], dict(value)
        hooks.clear()
        hooks.update(value)
