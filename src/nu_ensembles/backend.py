"""What differs between a CPU and a GPU, answered in one place.

The same training is written differently for the two: what a compiled loop, a convolution or a small product costs is
not the same. Every such difference is a field of `Backend`; nothing else asks which device there is. Beside it stands
how work in a thread keeps JAX's settings of the thread that gave it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax

Result = TypeVar("Result")

# Steps whose rows are drawn at once. A compiled call does not go beyond its block. Between two calls a GPU waits for
# the host, so that blocks are longer where steps are short.
BLOCK, LONG_BLOCK = 256, 1024


@dataclasses.dataclass(frozen=True)
class Backend:
    """How training and networks are written for a kind of device.

    Attributes:
      is_gpu: whether GPU libraries (cuDNN) are at work.
      convolutions_on_host: whether convolutional networks step, and predict, lane by lane from Python. On a CPU a
        convolution in a compiled loop is 30 times slower, and a vmapped one four times.
      steps_in_rounds: whether a compiled loop goes in rounds of several steps: its end is a message to a GPU's host.
      block, block_of_convolutions: how many steps' rows are drawn at once, few enough for a look at the progress every
        few seconds.
      ensembles_share_a_program: whether several ensembles train faster as one; more lanes gain nothing on a CPU.
      draws_lane_by_lane: whether what lanes draw goes through a program of one lane, which compiles sooner on a CPU.
      compiles_ahead: whether programs are compiled while others train: not where kernels are timed meanwhile.
      scores_in_threads: whether scoring may run beside training: not where both want the same cores.
      convolution_dtype: what "auto" means for convolutions.
      images_last: whether a convolution's input is kept for the weight gradient with its images as the last axis.
      most_unrolled: up to so many members convolve one after another; a program of more compiles longer than it saves.
      widest_patches: images of up to so many channels are convolved as products of patches, because they would be
        mostly zeros if they were filled up for cuDNN's grouped kernels.
      keeps_barriers: whether XLA minds an optimisation barrier.
      trial_free_from: networks with so many convolutions or more are compiled with fewer timed kernels; None for none.
      largest_sum: a product with a kernel of up to so many numbers is written as a sum. On a GPU XLA compiles and times
        many matrix kernels for every product and as many for its gradients, however small; a sum is one plain kernel.
    """

    is_gpu: bool
    convolutions_on_host: bool
    steps_in_rounds: bool
    block: int
    block_of_convolutions: int
    ensembles_share_a_program: bool
    draws_lane_by_lane: bool
    compiles_ahead: bool
    scores_in_threads: bool
    convolution_dtype: str
    images_last: bool
    most_unrolled: int
    widest_patches: int
    keeps_barriers: bool
    trial_free_from: int | None
    largest_sum: int

    @classmethod
    def current(cls) -> Backend:
        """That of JAX's default device."""
        return cls.of(jax.default_backend())

    @classmethod
    def of(cls, platform: str) -> Backend:
        """That of a platform by JAX's name; what is neither CPU nor GPU counts as a GPU without cuDNN."""
        return {"cpu": CPU, "gpu": GPU}.get(platform, TPU)

    @contextlib.contextmanager
    def ahead(self, task: Callable[[], object]) -> Iterator[None]:
        """Within it the task, which compiles what comes next, runs in a thread; not at all where that would disturb.

        Its error is raised at the end.
        """
        if not self.compiles_ahead:
            yield
            return
        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(with_settings_of_here(task))
            yield
            future.result()


def with_settings_of_here(task: Callable[..., Result]) -> Callable[..., Result]:
    """The task, for another thread: settings such as `with jax.enable_x64(True):` hold there as they do here."""
    here: Any = jax.config  # whose fields are made as it is imported
    x64, precision, device = here.jax_enable_x64, here.jax_default_matmul_precision, here.jax_default_device
    by_place = here.jax_threefry_partitionable

    def carried_out(*arguments: Any) -> Result:
        numbers = jax.enable_x64(x64), jax.default_matmul_precision(precision), jax.threefry_partitionable(by_place)
        with numbers[0], numbers[1], numbers[2], jax.default_device(device):
            return task(*arguments)

    return carried_out


CPU = Backend(
    is_gpu=False,
    convolutions_on_host=True,
    steps_in_rounds=False,
    block=BLOCK,
    block_of_convolutions=BLOCK,
    ensembles_share_a_program=False,
    draws_lane_by_lane=True,
    compiles_ahead=True,
    scores_in_threads=False,
    convolution_dtype="float32",
    images_last=True,
    most_unrolled=32,
    widest_patches=0,
    keeps_barriers=False,
    trial_free_from=None,
    largest_sum=0,
)
GPU = Backend(
    is_gpu=True,
    convolutions_on_host=False,
    steps_in_rounds=True,
    block=LONG_BLOCK,
    block_of_convolutions=BLOCK,
    ensembles_share_a_program=True,
    draws_lane_by_lane=False,
    compiles_ahead=False,
    scores_in_threads=True,
    convolution_dtype="bfloat16",
    images_last=False,
    most_unrolled=0,
    widest_patches=4,
    keeps_barriers=True,
    trial_free_from=8,  # LeNet has two convolutions, the smallest wide ResNet nine
    largest_sum=1 << 15,
)
TPU = dataclasses.replace(GPU, is_gpu=False, convolution_dtype="float32")
