"""What a view knows: its base, its version, its history, and who may write to it."""

import unittest

from golden import Family, torch


class Metadata(Family):
    family = "metadata"

    def test_views_of_views_have_one_base_and_one_version(self):
        x = torch.zeros(2, 3)
        row, item = x[0], x[0][1:]
        self.assertIs(item._base, x)
        row.add_(1)
        self.assertEqual((x._version, row._version, item._version), (1, 1, 1))
        self.check("base and version")

    def test_detach_shares_the_version_and_data_does_not(self):
        x = torch.zeros(3)
        x.detach().add_(1)
        self.assertEqual(x._version, 1)
        x.data.add_(1)
        self.assertEqual(x._version, 1)
        self.check("detach and data")

    def test_a_view_with_gradients_has_the_node_of_its_operator(self):
        self.check("views of a tensor that requires a gradient")

    def test_a_leaf_and_its_views_are_not_written_while_gradients_are_recorded(self):
        leaf = torch.zeros(3, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, "a leaf Variable that requires grad"):
            leaf.add_(1)
        with torch.no_grad():
            leaf.add_(1)
        self.assertEqual(leaf.tolist(), [1, 1, 1])
        self.check("views of a leaf")

    def test_a_write_to_a_view_becomes_history_of_the_base(self):
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        y[0].mul_(5)
        self.assertEqual(type(y.grad_fn).__name__, "CopySlices")
        y.sum().backward()
        self.assertEqual(x.grad.tolist(), [5, 1, 1])
        self.check("in-place on a view")
        self.check("gradients through writes to views")

    def test_a_write_to_the_base_becomes_history_of_its_views(self):
        self.check("in-place on the base")

    def test_a_view_made_without_gradients_is_not_written_with_them(self):
        self.check("views made without gradients")

    def test_inference_tensors_have_no_version(self):
        self.check("inference tensors")

    def test_what_is_refused_and_in_which_words(self):
        """Among others: outputs of operators that return several views are not written."""
        self.check("errors of in-place on views")

    def test_operators_that_change_sizes_in_place(self):
        self.check("in-place views")

    def test_backward_notices_changes_of_what_it_saved(self):
        self.check("saved tensors notice changes")

    def test_nodes_are_named_after_operators(self):
        self.check("names of nodes")


if __name__ == "__main__":
    unittest.main()
