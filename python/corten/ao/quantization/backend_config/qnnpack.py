"""The backends QNNPACK and XNNPACK."""

from __future__ import annotations

import corten

from .backend_config import DTypeConfig, DTypeWithConstraints
from .native import _INT8, _LINEAR, backend, weighted_op_quint8_dtype_config

__all__ = ["get_qnnpack_backend_config"]

# XNNPACK refuses requantisation scales below 2**-32, and the least weight.
qnnpack_act_qint8_scale_min_2_neg_12 = DTypeWithConstraints(
    dtype=corten.qint8, scale_min_lower_bound=2**-12
)
qnnpack_weight_qint8_neg_127_to_127_scale_min_2_neg_12 = DTypeWithConstraints(
    dtype=corten.qint8, quant_min_lower_bound=-127, quant_max_upper_bound=127, scale_min_lower_bound=2**-12
)
qnnpack_weighted_op_qint8_symmetric_dtype_config = DTypeConfig(
    qnnpack_act_qint8_scale_min_2_neg_12, qnnpack_act_qint8_scale_min_2_neg_12,
    qnnpack_weight_qint8_neg_127_to_127_scale_min_2_neg_12, corten.float,
)
qnnpack_default_op_qint8_symmetric_dtype_config = DTypeConfig(
    qnnpack_act_qint8_scale_min_2_neg_12, qnnpack_act_qint8_scale_min_2_neg_12
)


def get_qnnpack_backend_config():
    """What QNNPACK supports, with symmetric weights as of XNNPACK."""
    default = [qnnpack_default_op_qint8_symmetric_dtype_config, *_INT8]
    weighted = qnnpack_weighted_op_qint8_symmetric_dtype_config
    return backend(
        "qnnpack", conv=[weighted, weighted_op_quint8_dtype_config], linear=[weighted, *_LINEAR],
        binary=default, default=default, fixed=default, share=default,
    )
