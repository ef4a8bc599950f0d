"""Makes ``vision.npz`` and ``images.npz``: operators of torchvision, and image files with their pixels.

Needs PyTorch, torchvision and Pillow. A case is ``name/number/part``; the arguments that are no arrays are
JSON in ``cases``.
"""

import io
import json
import pathlib

import numpy as np
import torch
import torchvision  # noqa: F401  (registers the operators)
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parent.parent
OPS, IMAGE = torch.ops.torchvision, torch.ops.image
GENERATOR = torch.Generator().manual_seed(0)


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64).to(dtype)


def rois(count, images, most, dtype=torch.float64, empty=2):
    """Regions, the last of which may have negative sizes."""
    corners = torch.rand(count, 4, generator=GENERATOR, dtype=torch.float64) * most - 2
    corners[: count - empty, 2:] = corners[: count - empty, :2] + corners[: count - empty, 2:].abs() + 0.3
    image = torch.randint(0, images, (count, 1), generator=GENERATOR).to(torch.float64)
    return torch.cat([image, corners], 1).to(dtype)


def operators():
    """Name, tensors and other arguments of the calls."""
    for aligned in (False, True):
        for ratio in (-1, 0, 1, 3):
            for bins, scale in (((3, 2), 1.0), ((1, 4), 0.4)):
                for dtype in (torch.float64, torch.float32):
                    yield "roi_align", [random(2, 3, 9, 7, dtype=dtype), rois(7, 2, 14, dtype, 0 if aligned and ratio < 1 else 2)], [scale, *bins, ratio, aligned]
    for bins, scale in (((3, 2), 1.0), ((1, 4), 0.4), ((5, 5), 2.0)):
        yield "roi_pool", [random(2, 3, 9, 7), rois(7, 2, 14)], [scale, *bins]
        yield "ps_roi_pool", [random(2, 2 * bins[0] * bins[1], 9, 7), rois(7, 2, 14)], [scale, *bins]
        for ratio in (0, 2):
            yield "ps_roi_align", [random(2, 2 * bins[0] * bins[1], 9, 7), rois(5, 2, 14, empty=2 if ratio else 0)], [scale, *bins, ratio]
    for groups, offset_groups, stride, padding, dilation, use_mask in (
        (1, 1, (1, 1), (0, 0), (1, 1), False), (1, 1, (1, 2), (1, 0), (2, 1), True),
        (2, 1, (2, 1), (2, 1), (1, 1), True), (1, 2, (1, 1), (1, 1), (1, 2), True),
        (2, 4, (1, 1), (0, 2), (1, 1), False), (4, 2, (2, 2), (1, 1), (1, 1), True),
    ):
        kernel, size = (3, 2), (7, 6)
        out = [(size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
        taps = kernel[0] * kernel[1]
        mask = random(2, offset_groups * taps, *out) if use_mask else torch.zeros(2, 1, dtype=torch.float64)
        yield "deform_conv2d", [
            random(2, 4, *size), random(8, 4 // groups, *kernel), random(2, 2 * offset_groups * taps, *out) * 2, mask,
            random(8),
        ], [*stride, *padding, *dilation, groups, offset_groups, use_mask]


def boxes():
    for count, threshold in ((0, 0.5), (1, 0.5), (40, 0.2), (40, 0.5), (200, 0.7)):
        corners = torch.rand(count, 4, generator=GENERATOR) * 20
        corners[:, 2:] += corners[:, :2]
        scores = (torch.rand(count, generator=GENERATOR) * 50).round() / 50
        yield "nms", [corners, scores], [threshold]
    rotated = torch.rand(12, 5, generator=GENERATOR, dtype=torch.float64) * torch.tensor([10.0, 10.0, 6.0, 4.0, 180.0]).double()
    rotated[3] = rotated[2]
    rotated[5, 2] = 0
    yield "box_iou_rotated", [rotated, rotated[:7]], []


def write_operators():
    arrays, cases = {}, []
    for nr, (name, tensors, others) in enumerate([*operators(), *boxes()]):
        differentiable = name not in ("nms", "box_iou_rotated")
        wanted = range(len(tensors)) if name == "deform_conv2d" else [0]
        if differentiable:
            for i in wanted:
                tensors[i] = tensors[i].clone().requires_grad_()
        result = getattr(OPS, name)(*tensors, *others)
        results = result if isinstance(result, tuple) else (result,)
        for i, tensor in enumerate(tensors):
            arrays[f"{nr}/argument{i}"] = tensor.detach().numpy()
        for i, tensor in enumerate(results):
            arrays[f"{nr}/result{i}"] = tensor.detach().numpy()
        if differentiable:
            grad = random(*results[0].shape, dtype=results[0].dtype)
            grad = torch.where(results[0].isnan(), torch.zeros_like(grad), grad)
            arrays[f"{nr}/grad"] = grad.numpy()
            results[0].backward(grad)
            # Where regions reach the border, the original's gradient of `ps_roi_pool` is of other pixels than
            # its values.
            for i in wanted if name != "ps_roi_pool" else []:
                arrays[f"{nr}/gradient{i}"] = tensors[i].grad.numpy()
        cases.append([name, len(tensors), others])
    arrays["cases"] = np.array(json.dumps(cases))
    np.savez_compressed(FOLDER / "vision.npz", **arrays)


def scene(height, width, noise=20):
    """An image with edges, slopes and noise."""
    rng = np.random.RandomState(height * 1000 + width)
    y, x = np.mgrid[:height, :width]
    planes = [x * 255 / max(width - 1, 1), y * 255 / max(height - 1, 1), 255 * ((x // 5 + y // 3) % 2)]
    return np.clip(np.stack(planes, -1) + rng.randn(height, width, 3) * noise, 0, 255).astype(np.uint8)


def files():
    """Name, image, format and how it is saved."""
    for size in ((16, 16), (35, 29), (1, 1), (3, 2), (8, 70), (17, 33)):
        picture = Image.fromarray(scene(*size))
        for options in (
            {}, {"subsampling": 0}, {"subsampling": 1}, {"progressive": True, "quality": 90}, {"quality": 20},
            {"progressive": True, "subsampling": 0, "quality": 40}, {"optimize": True, "restart_marker_blocks": 2},
        ):
            yield picture, "JPEG", options
        yield picture.convert("L"), "JPEG", {}
        yield picture.convert("CMYK"), "JPEG", {}
    for size in ((16, 16), (35, 29), (1, 1), (9, 70)):
        picture = Image.fromarray(scene(*size, noise=4))
        alpha = Image.fromarray(scene(*size)[:, :, 0])
        with_alpha = picture.copy()
        with_alpha.putalpha(alpha)
        for image in (
            picture, with_alpha, picture.convert("L"), with_alpha.convert("LA"), picture.convert("1"),
            picture.quantize(200), Image.fromarray(scene(*size)[:, :, 1].astype(np.uint16) * 257 + 3),
        ):
            yield image, "PNG", {}
        yield picture, "WEBP", {"lossless": True}
        yield with_alpha, "WEBP", {"lossless": True}
        yield picture, "WEBP", {"quality": 60}
        yield picture, "GIF", {}
    frames = [Image.fromarray(scene(12, 14 + 0 * i, noise=50 * i)) for i in range(3)]
    yield frames[0], "GIF", {"save_all": True, "append_images": frames[1:]}
    yield frames[0], "GIF", {"save_all": True, "append_images": frames[1:], "disposal": 2, "transparency": 3}
    yield frames[0], "GIF", {"save_all": True, "append_images": frames[1:], "disposal": 3, "transparency": 5}
    yield frames[0], "GIF", {"save_all": True, "append_images": frames[1:], "disposal": 1, "transparency": 7}
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = orientation
        yield frames[0], "JPEG", {"exif": exif}
        yield frames[0], "PNG", {"exif": exif}


def write_images():
    arrays, cases = {}, []
    for nr, (image, kind, options) in enumerate(files()):
        stream = io.BytesIO()
        image.save(stream, kind, **options)
        data = torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)
        arrays[f"{nr}/file"] = data.numpy()
        turned = "exif" in options
        modes = {"JPEG": (0, 1, 3), "PNG": (0, 1, 2, 3, 4), "WEBP": (0, 3, 4), "GIF": (0,)}[kind]
        if kind == "PNG" and image.mode == "P":
            # What the original returns in place of the missing alpha is not in the file, and it leaves places
            # of less than eight bits packed.
            modes = (0, 1, 3) if data[24] == 8 else (1, 3)
        for mode in modes:
            arrays[f"{nr}/mode{mode}"] = IMAGE.decode_image(data, mode, turned).contiguous().numpy()
        cases.append([kind, image.mode, modes, turned])
    for size in ((16, 16), (35, 29), (1, 1), (8, 9), (33, 50), (20, 16)):
        pixels = torch.from_numpy(scene(*size)).permute(2, 0, 1).contiguous()
        for channels in (1, 3):
            for quality in (1, 30, 75, 100):
                name = f"jpeg/{size[0]}/{size[1]}/{channels}/{quality}"
                arrays[name] = IMAGE.encode_jpeg(pixels[:channels], quality).numpy()
        arrays[f"pixels/{size[0]}/{size[1]}"] = pixels.numpy()
    arrays["cases"] = np.array(json.dumps(cases))
    np.savez_compressed(FOLDER / "images.npz", **arrays)


if __name__ == "__main__":
    write_operators()
    write_images()
