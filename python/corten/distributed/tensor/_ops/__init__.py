"""Rules of operators, one module for each family."""

from corten.distributed.tensor._ops import (  # noqa: F401
    _foreach_rules, _index_rules, _loss_rules, _matrix_rules, _module_rules, _pointwise_rules, _random_rules,
    _reduction_rules, _tensor_rules, _view_rules,
)
