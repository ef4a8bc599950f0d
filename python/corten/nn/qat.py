"""``torch.ao.nn.qat`` under its older name."""

from corten.nn._older_names import stand_in

stand_in(__name__, __name__.replace(".nn.", ".ao.nn."))
