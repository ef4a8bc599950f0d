"""Models cut into stages by tracing them."""

from __future__ import annotations

import contextlib
import copy
import logging
import operator
from dataclasses import dataclass
from enum import Enum

import corten
from corten import fx, nn
from corten.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from corten.utils import _pytree as pytree

from .stage import _PipelineStage, as_tuple

__all__ = ["Pipe", "PipeInfo", "SplitPoint", "annotate_split_points", "pipe_split", "pipeline"]

logger = logging.getLogger(__name__)


def pipe_split():
    """Says, in a model that :func:`pipeline` traces, that a stage ends here. Elsewhere it does nothing."""
    from corten.export import _recorder

    recorder = _recorder.current()
    if recorder is not None:
        recorder.pipeline_stage += 1


class SplitPoint(Enum):
    """Where a module of ``split_spec`` begins another stage.

    Attributes:
        BEGINNING: Before it runs.
        END: After it ran.
    """

    BEGINNING = 1
    END = 2


def _split_forward(forward, place):
    def run(*args, **kwargs):
        if place is SplitPoint.BEGINNING:
            pipe_split()
        try:
            return forward(*args, **kwargs)
        finally:
            if place is SplitPoint.END:
                pipe_split()

    return run


def annotate_split_points(mod, spec):
    """Lets modules inside call :func:`pipe_split` before or after they run.

    Args:
        mod: The model.
        spec: Names of modules, with where to cut.

    Raises:
        AttributeError: There is no module of a name.
        ValueError: A place is no :class:`SplitPoint`.
    """
    for name, place in spec.items():
        if not isinstance(place, SplitPoint):
            raise ValueError(f"Unknown split point type: {place}")
        try:
            found = mod.get_submodule(name)
        except AttributeError as error:
            raise AttributeError(f"Specified target {name} referenced nonexistent module: {error}") from None
        found.forward = _split_forward(found.forward, place)


@contextlib.contextmanager
def _annotated(module, spec):
    """As :func:`annotate_split_points`, for as long as it lasts."""
    before = {}
    for name in spec or ():
        with contextlib.suppress(AttributeError):
            found = module.get_submodule(name)
            before[found] = vars(found).get("forward")
    try:
        annotate_split_points(module, spec or {})
        yield
    finally:
        for found, forward in before.items():
            vars(found).pop("forward", None)
            if forward is not None:
                found.forward = forward


@dataclass
class PipeInfo:
    """What a stage knows of its pipeline."""

    graph: fx.Graph
    num_stages: int
    has_loss_and_backward: bool


class _Cut:
    """The nodes of a traced model by stages, and what goes from one to the next."""

    def __init__(self, traced):
        self.inputs = [node for node in traced.graph.nodes if node.op == "placeholder"]
        (self.output,) = (node for node in traced.graph.nodes if node.op == "output")
        self.stages, self.stage_of = [[]], dict.fromkeys(self.inputs, 0)
        for node in traced.graph.nodes:
            if node.op == "call_function" and node.target is pipe_split:
                if self.stages[-1]:
                    self.stages.append([])
            elif node.op in ("call_function", "call_method") or _is_part(node):
                # What has no result, such as a write to a buffer, stands at the end of the graph.
                needs = [self.stage_of.get(one, 0) for one in node.all_input_nodes if one.op != "get_attr"]
                stage = max(needs, default=0) if not node.users else len(self.stages) - 1
                self.stages[stage].append(node)
                self.stage_of[node] = stage
        if not self.stages[-1]:
            self.stages.pop()
        self._find_values()

    def _find_values(self):
        """What each stage but the last gives to the next: what later ones, too, need of it and of those before it."""
        last = dict.fromkeys(self.stage_of, 0)
        for node, stage in self.stage_of.items():
            for one in node.all_input_nodes:
                if one in last:
                    last[one] = max(last[one], stage)
        for one in self.output.all_input_nodes:
            if one in last:
                last[one] = len(self.stages) - 1
        self.given = [
            [node for node, made in self.stage_of.items() if made <= stage < last[node]]
            for stage in range(len(self.stages) - 1)
        ]
        for stage, nodes in enumerate(self.given):
            for node in nodes:
                value = node.meta.get("val")
                if value is not None and not isinstance(value, corten.Tensor):
                    raise NotImplementedError(
                        f"pipeline: {node.name} of stage {stage} is needed by a later stage and is a "
                        f"{type(value).__name__}; only tensors are sent"
                    )


def _is_part(node):
    return node.op == "call_module" and node.target != "_guards_fn"


def _place(root, path, value):
    """Puts a parameter, buffer or module where it was in the model."""
    *way, name = path.split(".")
    for step in way:
        if not hasattr(root, step):
            root.add_module(step, nn.Module())
        root = getattr(root, step)
    if isinstance(value, corten.Tensor) and not isinstance(value, nn.Parameter):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)


def _stage_module(traced, cut, stage, name):
    """The module of a stage."""
    graph, root, made = fx.Graph(), nn.Module(), {}
    for node in cut.inputs if stage == 0 else cut.given[stage - 1]:
        made[node] = graph.placeholder(node.name)
        made[node].meta = copy.copy(node.meta)

    def copied(node):
        if node not in made:
            # Parameters are where they are used.
            made[node] = graph.node_copy(node, copied)
            _place(root, node.target, operator.attrgetter(node.target)(traced))
        return made[node]

    for node in cut.stages[stage]:
        if _is_part(node):
            _place(root, node.target, traced.get_submodule(node.target))
        for one in node.all_input_nodes:
            copied(one)
        made[node] = graph.node_copy(node, copied)
    if stage < len(cut.stages) - 1:
        values = tuple(made[node] for node in cut.given[stage])
        graph.output(values[0] if len(values) == 1 else values)
        gives = None
    else:
        for one in cut.output.all_input_nodes:
            copied(one)
        graph.output(fx.node.map_arg(cut.output.args[0], copied))
        gives = traced.graph._codegen.pytree_info.out_spec
    names = [made[node].name for node in made if made[node].op == "placeholder"]
    if stage == 0:
        info = traced.graph._codegen.pytree_info
        graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(list(info.orig_args), info.in_spec, gives)))
    elif gives is not None:
        leaves = pytree.tree_structure((tuple(range(len(names))), {}))
        graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, leaves, gives)))
    module = fx.GraphModule(root, graph, name)
    module.training = traced.training
    return module


class Pipe(nn.Module):
    """A model that was cut into stages. Called, it runs all of them, one after the other.

    Attributes:
        split_gm: The model as a graph of stages, ``submod_pp_0`` and so on.
        num_stages: How many stages there are.
    """

    def __init__(self, split_gm, num_stages, has_loss_and_backward=False, loss_spec=None):
        super().__init__()
        self.split_gm = split_gm
        self.num_stages, self.has_loss_and_backward, self.loss_spec = num_stages, has_loss_and_backward, loss_spec

    def forward(self, *args, **kwargs):
        """Runs the model."""
        value = self.get_stage_module(0)(*args, **kwargs)
        for stage in range(1, self.num_stages):
            value = self.get_stage_module(stage)(*as_tuple(value))
        return value

    def get_stage_module(self, stage_idx):
        """The module of a stage.

        Raises:
            ValueError: There is no such stage.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self.split_gm, f"submod_pp_{stage_idx}")

    @staticmethod
    def from_tracing(mod, example_args, example_kwargs=None, split_policy=None):
        """Traces a model that calls :func:`pipe_split`, or that ``split_policy`` cuts; see :func:`pipeline`."""
        program = corten.export.export(mod, example_args, example_kwargs)
        traced = program.module()
        _insert_splits(traced)
        if split_policy is not None:
            traced = split_policy(traced)
        cut = _Cut(traced)
        root, graph = nn.Module(), fx.Graph()
        graph_args, graph_kwargs = _inputs_of(graph, program, traced)
        value, count = None, len(cut.stages)
        for stage in range(count):
            name = f"submod_pp_{stage}"
            root.add_module(name, _stage_module(traced, cut, stage, name))
            if stage == 0:
                value = graph.call_module(name, graph_args, graph_kwargs)
                continue
            given = len(cut.given[stage - 1])
            parts = [value] if given == 1 else [
                graph.call_function(operator.getitem, (value, i)) for i in range(given)
            ]
            value = graph.call_module(name, tuple(parts))
        graph.output(value)
        logger.info("the model was cut into %d stages", count)
        return Pipe(fx.GraphModule(root, graph), count)

    def print_readable(self):
        """Prints the stages as programs."""
        self.split_gm.print_readable()

    def __str__(self):
        return str(self.split_gm)

    __repr__ = __str__

    def info(self):
        """What stages know of the pipeline, as :class:`PipeInfo`."""
        return PipeInfo(self.split_gm.graph, self.num_stages, self.has_loss_and_backward)

    def build_stage(self, stage_index, device, group=None):
        """A stage for schedules, whose module is moved to a device.

        Args:
            stage_index: The number of the stage.
            device: Where it runs.
            group: The processes of the pipeline; by default all.
        """
        return _PipelineStage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)


def _inputs_of(graph, program, traced):
    """The arguments of the first stage in the graph of stages."""
    args_spec, kwargs_spec = program.call_spec.in_spec.children_specs
    names = list(traced.graph._codegen.pytree_info.orig_args)
    made = [graph.placeholder(name) for name in names]
    count = len(args_spec.children_specs)
    return tuple(made[:count]), dict(zip(kwargs_spec.context, made[count:]))


def _insert_splits(traced):
    """Puts calls of :func:`pipe_split` where the program called it."""
    stage = 0
    for node in list(traced.graph.nodes):
        found = node.meta.get("pipeline_stage", stage)
        if node.op != "call_function" or found <= stage or not node.users:
            continue
        stage = found
        with traced.graph.inserting_before(node):
            traced.graph.call_function(pipe_split)


def pipeline(module, mb_args, mb_kwargs=None, split_spec=None, split_policy=None):
    """Cuts a model into stages.

    Stages end where the model calls :func:`pipe_split`, or where one of the arguments says so. What a later stage
    needs of an earlier one is handed on by those between them; parameters that several stages use are in each.

    Args:
        module: The model, which ``corten.export`` can trace.
        mb_args: Arguments of a microbatch.
        mb_kwargs: Keyword arguments of a microbatch.
        split_spec: Names of modules, with where to cut, as :class:`SplitPoint`.
        split_policy: A function that puts calls of :func:`pipe_split` into the traced model.

    Returns:
        The stages, as :class:`Pipe`.

    Raises:
        ValueError: Both ``split_spec`` and ``split_policy`` are given.
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    with _annotated(module, split_spec):
        return Pipe.from_tracing(module, mb_args, mb_kwargs, split_policy)
