"""Pictures that are bent: the painter's where nothing bends, moved where it says so, within the value range."""

import pytest
import torch

from understudy.pipelines.methods.kernel.generators import Generator, Shape
from understudy.pipelines.methods.kernel.warping import FARTHEST, POINTS, STRONGEST, Warped


class Painter(torch.nn.Module):
    """One bright pixel in the middle, whatever it is given."""

    def __init__(self, picture):
        super().__init__()
        self.canvas = torch.zeros(1, *picture)
        self.canvas[0, picture[0] // 2, picture[1] // 2] = 1.0

    def forward(self, inputs):
        return self.canvas.expand(len(inputs), -1, -1, -1).flatten(1)


def bent(picture, moves):
    """The painter's picture bent by these numbers, before they are limited."""
    warped = Warped(Painter(picture), 5, picture).eval()
    warped.bending[-1].weight.data.zero_()
    warped.bending[-1].bias.data.copy_(moves)
    return warped(torch.zeros(2, 5)).view(2, *picture)


@pytest.mark.parametrize("picture", [(28, 28, 1), (11, 9, 3)])
def test_where_nothing_bends_the_picture_is_the_painters(picture):
    found = bent(picture, torch.zeros(2 * POINTS**2 + 6))
    torch.testing.assert_close(found, Painter(picture).canvas.expand(2, -1, -1, -1), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("axis", "number"), [(2, -2), (1, -1)])
def test_a_shift_moves_the_picture_along_its_axis(axis, number):
    moves = torch.zeros(2 * POINTS**2 + 6)
    moves[number] = 20.0  # its limit: looks STRONGEST half sides further right, or down
    found = bent((29, 29, 1), moves)[..., 0]
    place = int(found[0].sum(dim=0 if axis == 2 else 1).argmax())
    assert place == round(14 - 14 * STRONGEST)
    assert int(found[0].sum(dim=1 if axis == 2 else 0).argmax()) == 14


def test_points_of_the_grid_move_all_alike_as_a_shift_does():
    moves = torch.zeros(2 * POINTS**2 + 6)
    moves[: POINTS**2] = 20.0
    found = bent((29, 29, 1), moves)[0, ..., 0]
    assert int(found.sum(dim=0).argmax()) == round(14 - 14 * FARTHEST)


@pytest.mark.parametrize("one_a_class", [False, True])
def test_generated_pictures_stay_in_range_and_every_weight_learns(one_a_class):
    torch.manual_seed(0)
    generator = Generator("warped", Shape(784, (28, 28, 1)), 3, 8, one_a_class)
    made = generator(torch.arange(3).repeat(4))
    assert made.shape == (12, 784)
    assert 0 <= float(made.detach().min()) <= float(made.detach().max()) <= 1
    made.square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in generator.parameters())
