"""Parts of graphs as modules, and comparing graphs."""

from __future__ import annotations

from corten import nn
from corten.fx.graph_module import GraphModule

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(nn.Module):
    """A module of some modules by name."""

    def __init__(self, d):
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(gm, subgraph, comp_name="", class_name="GraphModule"):
    """A module of a graph whose attributes are those of another module, and their old names by the new ones."""
    holder, renamed = HolderModule({}), {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = node.target
        *path, last = target.split(".")
        place = holder
        for part in path:
            if not hasattr(place, part):
                place.add_module(part, HolderModule({}))
            place = getattr(place, part)
        value = gm
        for part in target.split("."):
            value = getattr(value, part)
        if not hasattr(place, last):
            setattr(place, last, value)
        renamed[target] = f"{comp_name}.{target}" if comp_name else target
    return GraphModule(holder, subgraph, class_name), renamed


def compare_graphs(left, right):
    """Whether two graphs do the same in the same way."""
    from corten.fx.passes.utils.matcher_utils import SubgraphMatcher

    matches = SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right)
    return len(matches) > 0
