"""`engine.utils.tensorboard`: PyTorch's `SummaryWriter`, which writes TensorBoard event files through tensorboardX."""

from __future__ import annotations

import io
import os
import wave
from collections.abc import Mapping
from typing import Any

import numpy

from ..base import dtypes
from ..core.tensor import Tensor
from ..nn.module import Module
from .tensorboard_graph import graph_of, proto

__all__ = ["SummaryWriter"]
__path__: list[str] = []  # a package, as in PyTorch, with a module `writer`


def plain(x: Any) -> Any:
    """Convert tensors to NumPy arrays, also inside lists and dicts, for tensorboardX."""
    if isinstance(x, Tensor):
        host = x.detach()._host()
        return host.astype(numpy.float32) if x.dtype is dtypes.bfloat16 else host
    if isinstance(x, Mapping):
        return {k: plain(v) for k, v in x.items()}
    return type(x)(map(plain, x)) if type(x) in (list, tuple) else x


def _number(x: Any) -> float:
    array = numpy.asarray(plain(x))
    if array.size != 1:
        raise ValueError(f"scalar should be 0D: expected one number, got shape {array.shape}")
    return float(array.reshape(()))


def _images(x: Any) -> Any:
    """Convert images to arrays, stacking a list of equally sized images to a batch."""
    return numpy.stack([numpy.asarray(v) for v in plain(x)]) if isinstance(x, (list, tuple)) else plain(x)


class SummaryWriter:
    """Write scalars, histograms, images, text and graphs to event files in `log_dir` for TensorBoard.

    `log_dir` defaults to `runs/<date>_<host><comment>`. All methods accept tensors of any device and dtype; `walltime` is in seconds
    since 1970. A `with` block closes the writer.
    """

    def __init__(
        self, log_dir: str | os.PathLike | None = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: int = 120, filename_suffix: str = "",
    ):  # fmt: skip
        try:
            import tensorboardX
        except ImportError as error:
            told = f"SummaryWriter needs the package tensorboardX ({error}): pip install gradient-workbench[tensorboard]"
            raise ModuleNotFoundError(told, name="tensorboardX") from error
        self._writer = tensorboardX.SummaryWriter(
            logdir=None if log_dir is None else os.fspath(log_dir), comment=comment, purge_step=purge_step, max_queue=max_queue,
            flush_secs=flush_secs, filename_suffix=filename_suffix,
        )  # fmt: skip
        self.log_dir: str = self._writer.logdir
        self.purge_step, self.max_queue, self.flush_secs, self.filename_suffix = purge_step, max_queue, flush_secs, filename_suffix

    def get_logdir(self) -> str:
        """Return the folder of the event files."""
        return self.log_dir

    def _summary(self, global_step: int | None, walltime: float | None, **value: Any) -> None:

        summary = proto("summary").Summary
        self._writer._get_file_writer().add_summary(summary(value=[summary.Value(**value)]), global_step, walltime)

    # -- scalars and tensors ------------------------------------------------------------------------------------------------

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None, new_style: bool = False,
        double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Add a point to a curve. `new_style` and `double_precision`, which select an encoding in PyTorch, are ignored."""
        self._writer.add_scalar(tag, _number(scalar_value), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None, walltime: float | None = None
    ) -> None:  # fmt: skip
        """Add points to several curves of one chart; each curve has its own event file."""
        self._writer.add_scalars(main_tag, {k: _number(v) for k, v in tag_scalar_dict.items()}, global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow", walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Add a histogram. `bins` is "tensorflow" (geometric), a NumPy rule, or edges. Raises ValueError if there are no values."""
        array = numpy.asarray(plain(values)).reshape(-1)
        if array.size == 0:
            raise ValueError("The input has no element.")
        array = array.astype(numpy.float64) if array.dtype.kind in "b" or array.dtype == numpy.float16 else array
        self._writer.add_histogram(tag, array, global_step, plain(bins), walltime, max_bins)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: int, sum: float, sum_squares: float, bucket_limits: Any, bucket_counts: Any,
        global_step: int | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a histogram from precomputed counts."""
        limits, counts = (numpy.asarray(plain(x)).tolist() for x in (bucket_limits, bucket_counts))
        self._writer.add_histogram_raw(tag, min, max, num, sum, sum_squares, limits, counts, global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Add a tensor, converted to float32."""

        array, shapes = numpy.asarray(plain(tensor), numpy.float32), proto("tensor_shape").TensorShapeProto
        shape = shapes(dim=[shapes.Dim(size=n) for n in array.shape])
        found = proto("tensor").TensorProto(dtype=1, tensor_shape=shape, float_val=array.reshape(-1).tolist())
        self._summary(global_step, walltime, tag=tag, tensor=found)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: int | None = None, num_thresholds: int = 127, weights: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a precision-recall curve of predictions in [0, 1] at `num_thresholds` thresholds."""
        labels, predictions = (numpy.asarray(plain(x)) for x in (labels, predictions))
        self._writer.add_pr_curve(tag, labels, predictions, global_step, num_thresholds, plain(weights), walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any, true_negative_counts: Any, false_negative_counts: Any,
        precision: Any, recall: Any, global_step: int | None = None, num_thresholds: int = 127, weights: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a precision-recall curve from precomputed counts."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts, precision, recall)
        arrays = [numpy.asarray(plain(x)) for x in counts]
        self._writer.add_pr_curve_raw(tag, *arrays, global_step, num_thresholds, plain(weights), walltime)

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], hparam_domain_discrete: Mapping[str, list] | None = None,
        run_name: str | None = None, global_step: int | None = None,
    ) -> None:  # fmt: skip
        """Add a run's hyperparameters and metrics in the subfolder `run_name` (default: the time). None values are omitted.

        `hparam_domain_discrete` is validated but not written. Raises ValueError for values other than numbers, bools and strings.
        """
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        for name, domain in (hparam_domain_discrete or {}).items():
            if name not in hparam_dict or hparam_dict[name] not in domain:
                raise TypeError(f"parameter: hparam_domain_discrete[{name!r}] should be a list of the values of {name}, got {domain!r}")
        given = {}
        for k, v in hparam_dict.items():
            if v is None:
                continue
            if not isinstance(v, (bool, str, int, float, numpy.generic, numpy.ndarray, Tensor)):
                raise ValueError(f"add_hparams: {k!r} should be an int, float, str, bool or Tensor, but got a {type(v).__name__}")
            given[k] = v if isinstance(v, (bool, str)) else _number(v)
        self._writer.add_hparams(given, {k: _number(v) for k, v in metric_dict.items()}, run_name, global_step)

    # -- images, video, audio and geometry ----------------------------------------------------------------------------------

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None, dataformats: str = "CHW"
    ) -> None:
        """Add an image of floats in [0, 1] or uint8; `dataformats` is CHW, HWC, HW or WH."""
        self._writer.add_image(tag, plain(img_tensor), global_step, walltime, dataformats)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None, dataformats: str = "NCHW"
    ) -> None:
        """Add a batch of images, a tensor or a list, as a grid."""
        self._writer.add_images(tag, _images(img_tensor), global_step, walltime, dataformats)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Any, box_tensor: Any, global_step: int | None = None, walltime: float | None = None, rescale: float = 1,
        dataformats: str = "CHW", labels: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Add an image with boxes (N, 4), given as xmin, ymin, xmax, ymax."""
        if rescale != 1:
            raise ValueError(f"add_image_with_boxes: only rescale=1 is supported, got {rescale!r}; resize the image and its boxes before")
        self._writer.add_image_with_boxes(tag, plain(img_tensor), plain(box_tensor), global_step, walltime, dataformats, labels)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:  # fmt: skip
        """Add a matplotlib figure, or a list of them, as an image; they are closed unless `close=False`."""
        self._writer.add_figure(tag, figure, global_step, close, walltime)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4, walltime: float | None = None
    ) -> None:  # fmt: skip
        """Add a video (N, T, C, H, W) as an animated GIF with the N clips side by side; floats in [0, 1] or uint8."""
        from PIL import Image

        video = numpy.asarray(plain(vid_tensor))
        if video.ndim != 5 or video.shape[2] not in (1, 3):
            raise ValueError(f"add_video: expected a tensor (N, T, C, H, W) with 1 or 3 channels, got the shape {video.shape}")
        video = video if video.dtype == numpy.uint8 else numpy.clip(video * 255, 0, 255).astype(numpy.uint8)
        n, t, c, h, w = video.shape
        frames = numpy.broadcast_to(video.transpose(1, 3, 0, 4, 2).reshape(t, h, n * w, c), (t, h, n * w, 3))
        pictures = [Image.fromarray(numpy.ascontiguousarray(frame)) for frame in frames]
        out = io.BytesIO()
        pictures[0].save(out, "gif", save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0)

        image = proto("summary").Summary.Image(height=h, width=n * w, colorspace=3, encoded_image_string=out.getvalue())
        self._summary(global_step, walltime, tag=tag, image=image)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: int | None = None, sample_rate: int = 44100, walltime: float | None = None
    ) -> None:
        """Add a sound (L,) or (1, L) with samples in [-1, 1], as 16-bit WAV."""

        sound = numpy.asarray(plain(snd_tensor), numpy.float64).squeeze()
        if sound.ndim != 1:
            raise ValueError(
                f"add_audio: expected a sound of one channel, (L,) or (1, L), got the shape {tuple(numpy.shape(plain(snd_tensor)))}"
            )
        out = io.BytesIO()
        with wave.open(out, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(sample_rate)
            file.writeframes((numpy.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
        audio = proto("summary").Summary.Audio(
            sample_rate=sample_rate, num_channels=1, length_frames=len(sound), encoded_audio_string=out.getvalue(), content_type="audio/wav"
        )
        self._summary(global_step, walltime, tag=tag, audio=audio)

    def add_mesh(
        self, tag: str, vertices: Any, colors: Any = None, faces: Any = None, config_dict: dict | None = None,
        global_step: int | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add points or a mesh: vertices (B, N, 3), colors (B, N, 3) in [0, 255], faces (B, M, 3)."""
        self._writer.add_mesh(tag, plain(vertices), plain(colors), plain(faces), config_dict, global_step, walltime)

    def add_embedding(
        self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: int | None = None, tag: str = "default",
        metadata_header: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Add rows (N, D) to the embedding projector, with optional labels and images (N, C, H, W)."""
        rows, labels = numpy.asarray(plain(mat)), plain(metadata)
        if rows.ndim != 2 or labels is not None and len(labels) != len(rows) or label_img is not None and len(label_img) != len(rows):
            raise ValueError(f"add_embedding: expected rows (N, D) with N labels and N images, got the shape {rows.shape}")
        labels = labels.tolist() if isinstance(labels, numpy.ndarray) else labels
        self._writer.add_embedding(rows, labels, plain(label_img), global_step, tag, metadata_header)

    # -- text and graphs ----------------------------------------------------------------------------------------------------

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        """Add text in Markdown."""
        self._writer.add_text(tag, text_string, global_step, walltime)

    def add_graph(self, model: Module, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True) -> None:
        """Add the ops of `model(input_to_model)`, grouped by module, as recorded by the engine. `verbose` prints the graph."""
        if input_to_model is None:
            raise ValueError("add_graph: input_to_model, example inputs, is needed to run the model")
        graph = graph_of(model, tuple(input_to_model) if isinstance(input_to_model, (tuple, list)) else (input_to_model,))
        if verbose:
            print(graph)

        self._writer._get_file_writer().add_event(proto("event").Event(graph_def=graph.SerializeToString()))

    def add_custom_scalars(self, layout: dict) -> None:
        """Set the layout of charts: `{category: {title: ["Multiline" or "Margin", [tag, ...]]}}`."""
        self._writer.add_custom_scalars(layout)

    def add_custom_scalars_multilinechart(self, tags: list[str], category: str = "default", title: str = "untitled") -> None:
        """Show several curves in one chart."""
        self._writer.add_custom_scalars_multilinechart(tags, category, title)

    def add_custom_scalars_marginchart(self, tags: list[str], category: str = "default", title: str = "untitled") -> None:
        """Show a curve with lower and upper bounds, in that order of tags."""
        self._writer.add_custom_scalars_marginchart(tags, category, title)

    # -- the files ----------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all pending events to the files."""
        # tensorboardX's flush misses events still in the queue: stop its thread, which drains it, and start another
        files: Any = self._writer.all_writers or {}
        for writer in [file.event_writer for file in files.values()]:
            if not writer._closed:
                writer._worker.stop()
                writer.flush()
                writer._worker = type(writer._worker)(writer._event_queue, writer._ev_writer, writer._flush_secs)
                writer._worker.start()

    def close(self) -> None:
        """Write all pending events and close the files."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
