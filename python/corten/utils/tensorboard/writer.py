"""``SummaryWriter``."""

from __future__ import annotations

import os
import time

from . import _summaries as summaries
from ._records import EventFile

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes summaries to one event file."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self._folder = str(log_dir)
        self._flush_secs = flush_secs
        self._flushed = time.monotonic()
        self.event_writer = EventFile(self._folder, filename_suffix)

    def get_logdir(self):
        """The folder."""
        return self._folder

    def add_summary(self, summary, global_step=None, walltime=None):
        """Writes a summary at a step."""
        wall_time = time.time() if walltime is None else walltime
        step = 0 if global_step is None else int(global_step)
        self.event_writer.add(summary, step, wall_time)
        if time.monotonic() - self._flushed > self._flush_secs:
            self.flush()

    def flush(self):
        """Hands everything to the system."""
        self._flushed = time.monotonic()
        self.event_writer.flush()

    def close(self):
        """Ends the file."""
        self.event_writer.close()


class SummaryWriter:
    """Writes what TensorBoard shows to a folder, by default ``runs/<date>_<host><comment>``.

    Methods take a tag, a value, a step and a time in seconds (now). The file is complete after
    :meth:`flush` or :meth:`close`, or at the end of a ``with`` block.
    """

    def __init__(
        self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120,
        filename_suffix="",
    ):
        if not log_dir:
            import socket
            from datetime import datetime

            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer = self.all_writers = None
        self._get_file_writer()

    def _get_file_writer(self):
        if self.file_writer is None:
            self.file_writer = FileWriter(
                self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix
            )
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
        return self.file_writer

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def _add(self, summary, global_step, walltime):
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_scalar(
        self, tag, scalar_value, global_step=None, walltime=None, new_style=False,
        double_precision=False,
    ):
        """A number."""
        summary = summaries.scalar(tag, scalar_value, new_style, double_precision)
        self._add(summary, global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one chart; each gets a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            place = os.path.join(folder, main_tag.replace("/", "_") + "_" + tag)
            if place not in self.all_writers:
                self.all_writers[place] = FileWriter(
                    place, self.max_queue, self.flush_secs, self.filename_suffix
                )
            self.all_writers[place].add_summary(
                summaries.scalar(main_tag, value), global_step, walltime
            )

    def add_hparams(
        self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None,
        global_step=None,
    ):
        """The parameters of a run and what it reached, in a folder of its own."""
        found = summaries.hyperparameters(hparam_dict, metric_dict, hparam_domain_discrete)
        place = os.path.join(self.get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=place) as writer:
            for summary in found:
                writer.file_writer.add_summary(summary, global_step)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    def add_histogram(
        self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None
    ):
        """The distribution of values."""
        self._add(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts,
        global_step=None, walltime=None,
    ):
        """A distribution of which the buckets were counted already."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        summary = summaries.raw_histogram(
            tag, min, max, num, sum, sum_squares, list(bucket_limits), list(bucket_counts)
        )
        self._add(summary, global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """An image: bytes, or numbers from 0 to 1."""
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Images side by side."""
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of matplotlib, or several."""
        import numpy

        figures = figure if isinstance(figure, list) else [figure]
        drawn = []
        for one in figures:
            from matplotlib.backends.backend_agg import FigureCanvasAgg

            canvas = FigureCanvasAgg(one)
            canvas.draw()
            drawn.append(numpy.asarray(canvas.buffer_rgba())[:, :, :3].copy())
            if close:
                import matplotlib.pyplot as pyplot

                pyplot.close(one)
        if isinstance(figure, list):
            self.add_images(tag, numpy.stack(drawn), global_step, walltime, dataformats="NHWC")
        else:
            self.add_image(tag, drawn[0], global_step, walltime, dataformats="HWC")

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Sound: samples from -1 to 1."""
        self._add(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """A text in Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None,
        walltime=None,
    ):
        """Precision and recall of predictions over thresholds."""
        summary = summaries.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(summary, global_step, walltime)

    def _refuse(self, what):
        raise NotImplementedError(f"{what} cannot be written to event files yet")

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """Refused: modules are not traced."""
        self._refuse("graphs of modules")

    def add_embedding(
        self, mat, metadata=None, label_img=None, global_step=None, tag="default",
        metadata_header=None,
    ):
        """Refused: the projector's files."""
        self._refuse("embeddings")

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Refused: there is no encoder for films."""
        self._refuse("videos")

    def add_mesh(
        self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None,
        walltime=None,
    ):
        """Refused: the plugin for meshes."""
        self._refuse("meshes")

    def flush(self):
        """Hands everything to the system."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """Ends the files; later values begin new ones."""
        if self.all_writers is None:
            return
        for writer in self.all_writers.values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()
