"""What differs between a CPU and a GPU, asked in one place.

The same training is written differently for the two: what a compiled loop, a convolution or a small product costs is
not the same. Every such difference is a question that `Backend` answers; nothing else asks which device there is.
"""

from __future__ import annotations

import dataclasses

import jax

# Steps whose rows are drawn at once. A compiled call does not go beyond its block. Between two calls a GPU waits for
# the host, so that blocks are longer where steps are short.
BLOCK, LONG_BLOCK = 256, 1024
# Convolutions of a deep network: LeNet has two, the smallest wide ResNet nine.
DEEP = 8
# A kernel `[F, C]` of so few numbers is too small for a plain sum to be slower than a matrix product.
SMALL_KERNEL = 1 << 15


@dataclasses.dataclass(frozen=True)
class Backend:
    """A kind of device: "cpu", "gpu" or "tpu", by JAX's name."""

    platform: str

    @classmethod
    def current(cls) -> Backend:
        """That of JAX's default device."""
        return cls(jax.default_backend())

    @property
    def is_cpu(self) -> bool:
        return self.platform == "cpu"

    @property
    def is_gpu(self) -> bool:
        return self.platform == "gpu"

    # How members train

    def steps_on_host(self, convolutional: bool) -> bool:
        """Whether the loop over steps runs in Python: on a CPU a convolution in a compiled loop is 30 times slower."""
        return self.is_cpu and convolutional

    @property
    def steps_in_rounds(self) -> bool:
        """Whether a compiled loop goes in rounds of several steps: on a GPU its end is a message to the host."""
        return not self.is_cpu

    def steps_a_block(self, convolutional: bool) -> int:
        """How many steps' rows are drawn at once: few enough for a look at the progress every few seconds."""
        return BLOCK if self.is_cpu or convolutional else LONG_BLOCK

    @property
    def ensembles_share_a_program(self) -> bool:
        """Whether several ensembles train faster as one program; on a CPU more lanes in one gain nothing."""
        return not self.is_cpu

    def times_fewer_kernels(self, n_convolutions: int) -> bool:
        """Whether the compiler should time fewer kernels, because the network has so many."""
        return not self.is_cpu and n_convolutions >= DEEP

    def members_one_by_one(self, convolutional: bool) -> bool:
        """Whether prediction goes member by member: on a CPU a vmapped convolution is four times slower."""
        return self.is_cpu and convolutional

    @property
    def scores_in_threads(self) -> bool:
        """Whether scoring may run beside training: not where both want the same cores."""
        return not self.is_cpu

    # How networks compute

    @property
    def convolution_dtype(self) -> str:
        """What "auto" means for convolutions."""
        return "bfloat16" if self.is_gpu else "float32"

    @property
    def keeps_images_last(self) -> bool:
        """Whether a convolution's input is kept for the weight gradient with its images as the last axis."""
        return self.is_cpu

    @property
    def pads_unevenly(self) -> bool:
        """Whether convolutions add uneven margins themselves; cuDNN's kernels want them added before."""
        return self.is_cpu

    def sums_instead_of_product(self, n_numbers: int) -> bool:
        """Whether a product with a kernel of so few numbers is written as a sum.

        XLA compiles and times many matrix kernels for a product on a GPU, and as many for each of its two gradients,
        however small they are. A sum is one plain kernel.
        """
        return not self.is_cpu and n_numbers <= SMALL_KERNEL

    @property
    def keeps_barriers(self) -> bool:
        """Whether XLA minds an optimisation barrier; on a CPU it drops them."""
        return not self.is_cpu
