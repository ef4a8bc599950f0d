"""Gradients in 8 bits: every process sends its own and sums those of all."""

from __future__ import annotations

import corten
import corten.distributed as dist

from ._steps import Steps

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]


def _quantize_per_tensor_backend(x, scale, zero_point):
    return corten.clamp(corten.round(x / scale) + zero_point, 0, 255).to(corten.uint8)


def _dequantize_per_tensor_backend(y, scale, zero_point):
    return scale * (y.to(corten.float32) - zero_point)


def _quantize_per_channel_backend(x, scale, zero_point):
    return _quantize_per_tensor_backend(x, scale.unsqueeze(1), zero_point.unsqueeze(1))


def _dequantize_per_channel_backend(y, scale, zero_point):
    return _dequantize_per_tensor_backend(y, scale.unsqueeze(1), zero_point.unsqueeze(1))


def _exchange(process_group, values, scale, zero_point, quantize, dequantize, finish):
    """The average of what all processes have: scales first, then the numbers."""
    group = process_group if process_group is not None else dist.group.WORLD
    rank, size = dist.get_rank(group), group.size()
    own = corten.stack([scale.to(corten.float32).reshape(-1), zero_point.to(corten.float32).reshape(-1)])
    scales = [corten.zeros_like(own) for _ in range(size)]
    first = dist.all_gather(scales, own, group=group, async_op=True).get_future()

    def average(_):
        quantized = quantize(values, *scales[rank])
        all_quantized = [corten.zeros_like(quantized) for _ in range(size)]
        dist.all_gather(all_quantized, quantized, group=group)
        total = corten.zeros_like(quantized, dtype=corten.float32)
        for each, (each_scale, each_zero) in zip(all_quantized, scales):
            total += dequantize(each, each_scale, each_zero)
        return finish(total) / size

    return Steps(first, average)


def quantization_pertensor_hook(process_group, bucket):
    """The average of gradients that were rounded to 256 values between their extremes."""
    tensor = bucket.buffer()
    observer = corten.ao.quantization.MinMaxObserver().to(tensor.device)
    observer(tensor)
    return _exchange(
        process_group, tensor, *observer.calculate_qparams(), _quantize_per_tensor_backend,
        _dequantize_per_tensor_backend, lambda total: total,
    )


def quantization_perchannel_hook(process_group, bucket, bucket_size=512):
    """As :func:`quantization_pertensor_hook`, ``bucket_size`` elements at a time."""
    tensor = bucket.buffer()
    missing = bucket_size - len(tensor) % bucket_size
    channels = corten.nn.functional.pad(tensor, (0, missing)).view(-1, bucket_size)
    observer = corten.ao.quantization.PerChannelMinMaxObserver().to(tensor.device)
    observer(channels)
    return _exchange(
        process_group, channels, *observer.calculate_qparams(), _quantize_per_channel_backend,
        _dequantize_per_channel_backend, lambda total: total.flatten()[:len(tensor)],
    )
