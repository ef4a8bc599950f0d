"""Memory formats and the strides of results."""

import unittest

from golden import Family, torch


class Formats(Family):
    family = "formats"

    def test_pointwise_results_keep_the_order_of_strides(self):
        x = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
        self.assertEqual((x + 1).stride(), (60, 1, 15, 3))
        self.assertEqual((torch.ones(2, 3, 4, 5) + x).stride(), (60, 20, 5, 1),
            "the first operand decides")
        self.check("one operand")
        self.check("two operands")

    def test_a_tensor_can_have_several_formats(self):
        self.check("flags")

    def test_formats_can_be_asked_for(self):
        self.check("formats asked for")

    def test_joined_tensors_keep_the_format_they_share(self):
        self.check("lists of tensors")

    def test_channels_last_goes_through_layers(self):
        self.check("images")
        self.check("volumes")

    def test_gradients_have_the_strides_of_their_tensor(self):
        self.check("gradients")

    def test_matrix_products(self):
        self.check("matrix products")

    def test_new_tensors(self):
        self.check("samples of new tensors")


if __name__ == "__main__":
    unittest.main()
