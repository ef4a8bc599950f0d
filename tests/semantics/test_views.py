"""Views: new sizes, strides and an offset over the same memory."""

import unittest

from golden import Family, geometry, torch


class Views(Family):
    family = "views"

    def setUp(self):
        self.t = torch.arange(24).view(2, 3, 4)

    def test_a_view_is_sizes_strides_and_an_offset(self):
        for view, expected in [
            (self.t, "(2, 3, 4) strides (12, 4, 1) offset 0"),
            (self.t[1], "(3, 4) strides (4, 1) offset 12"),
            (self.t[:, 1:, ::2], "(2, 2, 2) strides (12, 4, 2) offset 4"),
            (self.t.transpose(0, 2), "(4, 3, 2) strides (1, 4, 12) offset 0"),
            (self.t.diagonal(1, 1, 2), "(2, 3) strides (12, 5) offset 1"),
            (self.t[:1].expand(5, 3, 4), "(5, 3, 4) strides (0, 4, 1) offset 0"),
            (self.t.unfold(2, 2, 1), "(2, 3, 3, 2) strides (12, 4, 1, 1) offset 0"),
        ]:
            self.assertEqual(geometry(view), "int64 " + expected)
            self.assertIs(view._base, self.t._base)

    def test_view_needs_no_copy_or_is_an_error(self):
        """New sizes must lie within runs of dimensions that are contiguous with each other."""
        t = self.t.permute(0, 2, 1)
        self.assertEqual(t.view(2, 2, 2, 3).stride(), (12, 2, 1, 4))
        with self.assertRaisesRegex(RuntimeError, "spans across two contiguous subspaces"):
            t.view(2, 12)
        self.check("view")

    def test_reshape_is_a_view_where_it_can_be(self):
        self.assertEqual(self.t.reshape(6, 4).data_ptr(), self.t.data_ptr())
        self.assertNotEqual(self.t.mT.reshape(24).data_ptr(), self.t.data_ptr())
        self.check("reshape")

    def test_flatten_ravel_and_unflatten_reshape_some_dimensions(self):
        self.check("flatten, ravel, unflatten")

    def test_view_as_a_dtype_of_another_size_rescales_the_last_dimension(self):
        self.assertEqual(geometry(self.t.view(torch.int16)),
            "int16 (2, 3, 16) strides (48, 16, 1) offset 0")
        self.check("view as another dtype")

    def test_real_and_imaginary_parts_are_views_with_doubled_strides(self):
        self.check("real and complex")

    def test_conjugation_and_negation_are_bits_until_they_are_resolved(self):
        z = torch.tensor([1 + 2j])
        z.conj().imag.fill_(5)
        self.assertEqual(z.tolist(), [1 - 5j])
        self.check("lazy bits")

    def test_as_strided_stays_within_its_storage(self):
        self.check("as_strided")

    def test_select_drops_a_dimension_and_narrow_keeps_it(self):
        self.check("select and narrow")

    def test_slices_are_clamped_and_go_forward(self):
        self.check("slices")

    def test_split_cuts_by_length_chunk_and_tensor_split_by_number(self):
        lengths = lambda pieces: [len(piece) for piece in pieces]
        t = torch.arange(7)
        self.assertEqual(lengths(t.split(3)), [3, 3, 1])
        self.assertEqual(lengths(t.chunk(5)), [2, 2, 2, 1])
        self.assertEqual(lengths(t.tensor_split(5)), [2, 2, 1, 1, 1])
        self.check("split")

    def test_hsplit_vsplit_and_dsplit_cut_a_fixed_dimension(self):
        self.check("hsplit, vsplit, dsplit")

    def test_a_diagonal_walks_two_dimensions_at_once(self):
        self.check("diagonal")

    def test_permutations_reorder_sizes_and_strides(self):
        self.check("permute, transpose, movedim")

    def test_squeeze_ignores_sizes_other_than_one(self):
        self.check("squeeze and unsqueeze")

    def test_expand_repeats_with_stride_zero(self):
        self.check("expand")

    def test_unfold_appends_its_windows_as_the_last_dimension(self):
        self.check("unfold")

    def test_which_operators_return_their_argument_and_which_its_memory(self):
        self.check("detach, alias, contiguous, positive")

    def test_a_number_has_no_sizes(self):
        """`shape` is a tuple; a tensor without dimensions has one element."""
        self.check("shapes and sizes")


if __name__ == "__main__":
    unittest.main()
