"""Plant faults in the texts of templates: ``python -m tests.bench.template_faults [PART]``.

Each fault changes one place of a template's text, whose kernel is judged before anything would be
timed.  A row for each template tells how many of its faults were found, by their kinds; those that
nobody found are named.  An argument names templates by a part.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.codegen.templates import (
    test_attention,
    test_attention_mma,
    test_attention_ranges,
    test_attention_tma,
    test_attention_wgmma,
    test_cluster,
    test_depthwise,
    test_fma,
    test_gemm,
    test_mma,
    test_order,
    test_scores,
    test_tma,
    test_weighted_mma,
    test_weighted_tma,
    test_wgmma,
    test_windows,
)
from tests.codegen.templates.faults import KINDS, OTHER, kind


@dataclass(frozen=True)
class Case:
    """The names of a template's faults, and a test of one, which fails if it is not found."""

    faults: Mapping[str, object]
    test: Callable[[str], None]

    def missed(self) -> Iterator[tuple[str, bool]]:
        """Yield each fault, and whether nobody found it."""
        for name in self.faults:
            try:
                self.test(name)
            except AssertionError:
                yield name, True
            else:
                yield name, False


CASES: Mapping[str, Case] = {
    "tiled_gemm": Case(
        test_gemm.FAULTS, test_gemm.test_a_planted_fault_is_found_before_anything_is_timed
    ),
    "fma_gemm": Case(
        test_fma.FAULTS, test_fma.test_a_planted_fault_is_found_before_anything_is_timed
    ),
    "fma_gemm of copies": Case(test_fma.COPIED_FAULTS, test_fma.test_a_fault_among_copies_is_found),
    "mma_gemm": Case(
        test_mma.FAULTS, test_mma.test_a_planted_fault_is_found_before_anything_is_timed
    ),
    "wgmma_gemm": Case(
        test_wgmma.FAULTS, test_wgmma.test_a_planted_fault_is_found_before_anything_is_timed
    ),
    "wgmma_gemm of pieces": Case(
        test_wgmma.FAULTS_OF_PIECES,
        test_wgmma.test_a_planted_fault_in_pieces_that_are_computed_is_found,
    ),
    "wgmma_gemm of tf32": Case(
        test_wgmma.FAULTS_OF_ROUNDING,
        test_wgmma.test_a_planted_fault_in_products_of_rounded_operands_is_found,
    ),
    "wgmma_gemm of integers": Case(
        test_wgmma.FAULTS_OF_INTEGERS,
        test_wgmma.test_a_planted_fault_in_products_of_integers_is_found,
    ),
    "cluster_gemm": Case(
        test_cluster.FAULTS, test_cluster.test_a_planted_fault_is_found_before_anything_is_timed
    ),
    "tma_gemm": Case(
        test_tma.FAULTS, test_tma.test_a_planted_fault_is_found_before_anything_is_timed
    ),
    "wgmma_gemm of many tiles": Case(test_order.FAULTS, test_order.test_a_planted_fault_is_found),
    "tma_gemm by two blocks": Case(
        test_tma.FAULTS_OF_BLOCKS,
        test_tma.test_a_planted_fault_of_blocks_that_share_tiles_is_found,
    ),
    "tma_gemm by boxes": Case(
        test_tma.FAULTS_OF_BOXES, test_tma.test_a_planted_fault_in_stores_of_boxes_is_found
    ),
    "tma_gemm of windows": Case(
        test_windows.FAULTS, test_windows.test_a_planted_fault_is_found_before_anything_is_timed
    ),
    "depthwise_conv": Case(test_depthwise.FAULTS, test_depthwise.test_a_planted_fault_is_found),
    "depthwise_conv of channels": Case(
        test_depthwise.LAST_FAULTS, test_depthwise.test_a_fault_with_channels_last_is_found
    ),
    "tiled_attention": Case(
        test_attention.FAULTS, test_attention.test_a_planted_fault_is_found_before_anything_is_timed
    ),
    "mma_attention": Case(
        test_attention_mma.FAULTS,
        test_attention_mma.test_a_planted_fault_is_found_before_anything_is_timed,
    ),
    "wgmma_attention": Case(
        test_attention_wgmma.FAULTS,
        test_attention_wgmma.test_a_planted_fault_is_found_before_anything_is_timed,
    ),
    "tma_attention": Case(
        test_attention_tma.FAULTS,
        test_attention_tma.test_a_planted_fault_is_found_before_anything_is_timed,
    ),
    "attention by ranges": Case(
        test_attention_ranges.FAULTS, test_attention_ranges.test_a_planted_fault_is_found
    ),
    "short scores": Case(test_scores.FAULTS, test_scores.test_a_planted_fault_is_found),
    "mma_weighted": Case(
        test_weighted_mma.FAULTS,
        test_weighted_mma.test_a_planted_fault_is_found_before_anything_is_timed,
    ),
    "tma_weighted": Case(
        test_weighted_tma.FAULTS,
        test_weighted_tma.test_a_planted_fault_is_found_before_anything_is_timed,
    ),
}


def main(part: str = "") -> int:
    """Print a row for each template; return how many faults nobody found."""
    planted = lost = 0
    for name, case in CASES.items():
        if part not in name:
            continue
        done, found = Counter[str](), Counter[str]()
        for fault, missed in case.missed():
            done[kind(fault)] += 1
            found[kind(fault)] += not missed
            if missed:
                print(f"{name}: {fault} is not found", flush=True)
        cells = (f"{k} {found[k]}/{done[k]}" for k in (*KINDS, OTHER) if done[k])
        print(f"{name:<20} {', '.join(cells)}", flush=True)
        planted, lost = planted + done.total(), lost + done.total() - found.total()
    print(f"{planted - lost} of {planted} faults found")
    return lost


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))
