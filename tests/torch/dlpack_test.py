"""Arrays to and from PyTorch (CPU) through DLPack. script/torch runs it: PyTorch is no requirement of the other tests."""
import gc

import numpy as np
import pytest
import torch
import weft

DTYPES = [(torch.float32, "float32"), (torch.float16, "float16"), (torch.int32, "int32"), (torch.bool, "bool")]


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    x = torch.arange(int(np.prod(shape))).reshape(shape) % 7
    return (x > 3) if dtype == torch.bool else x.to(dtype)


@pytest.mark.parametrize("dtype,name", DTYPES, ids=[n for _, n in DTYPES])
def test_there_and_back(dtype, name):
    t = sample(dtype, 3, 4)
    if dtype == torch.bool and torch.__version__.startswith("1."):
        with pytest.raises(weft.DTypeError, match="[Bb]ool"):  # PyTorch refuses; 2.1 hands bool through
            weft.from_dlpack(t)
        return
    x = weft.from_dlpack(t)
    assert (x.shape, x.dtype) == ((3, 4), np.dtype(name))
    back = torch.from_dlpack(x)
    assert back.dtype == dtype and torch.equal(back, t)


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5, 1, 2), (2, 3, 4, 5)])
def test_shapes(shape):
    t = sample(torch.float32, *shape)
    assert torch.equal(torch.from_dlpack(weft.from_dlpack(t)), t)


def test_strided_and_turned_tensors():
    t = sample(torch.float32, 6, 8)
    for view in (t.T, t[::2], t[:, 1::3], t[2:5, 3:4], t.expand(2, 6, 8), t.permute(1, 0)[3:]):
        assert torch.equal(torch.from_dlpack(weft.from_dlpack(view)), view)
        assert torch.equal(torch.from_dlpack(weft.from_dlpack(view) * 2), view * 2)
    x = weft.from_dlpack(t)
    assert torch.equal(torch.from_dlpack(x.T[1:, ::2]), t.T[1:, ::2])


def test_elements_are_copies():
    t = sample(torch.float32, 4)
    x = weft.from_dlpack(t)
    t[0] = 99
    assert x.numpy().tolist() == [0, 1, 2, 3]
    a, b = torch.from_dlpack(x), torch.from_dlpack(x)
    a[1] = 77
    assert b.tolist() == [0, 1, 2, 3] and x.numpy().tolist() == [0, 1, 2, 3]


def test_either_side_may_go_first():
    t = torch.from_dlpack(weft.asarray(np.arange(1000, dtype=np.float32)) + 1)
    x = weft.from_dlpack(torch.arange(1000.0) + 1)
    gc.collect()
    rubbish = [np.full(1000, 9, np.float32) for _ in range(64)]
    assert torch.equal(t, torch.arange(1000.0) + 1) and x.numpy()[-1] == 1000
    del rubbish


def test_a_layer_of_both():
    torch.manual_seed(3)
    layer, t = torch.nn.Linear(20, 7), torch.randn(5, 20)
    w, b = (weft.from_dlpack(p.detach()) for p in (layer.weight, layer.bias))
    y = torch.from_dlpack(weft.nn.relu(weft.from_dlpack(t) @ w.T + b))
    assert torch.allclose(y, torch.relu(layer(t)), atol=1e-5)


def test_what_no_device_holds_is_refused():
    with pytest.raises((weft.Error, TypeError, BufferError)):
        weft.from_dlpack(torch.zeros(3, dtype=torch.complex64))
    with pytest.raises((weft.Error, RuntimeError, BufferError)):
        weft.from_dlpack(torch.zeros(3, requires_grad=True))
