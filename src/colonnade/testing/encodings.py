"""What every tensor encoding must pass."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import torch

from colonnade.compress import (
    DECODERS,
    Encoder,
    Encoding,
    Key,
    Occasion,
    admits,
    decode,
    decoder,
    describe,
    parse,
    plain,
    shown,
)
from colonnade.errors import PartyError, WireError
from colonnade.learn.outbound import Outbound
from colonnade.learn.template import Template
from colonnade.policies.view import Exchange
from colonnade.protect.secret import Secret
from colonnade.record.sealed import FORMAT, Header, pack, unpack
from colonnade.testing.expect import expect
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Buffer, Embedding, Packed

KEY = Key(seed=3, sender="partner", role="embedding", receiver="bank")
SHAPES = ((8, 4), (1, 1), (1, 4), (3, 7), (2, 3, 5), (6,), (), (0,), (0, 4), (4, 0), (1, 257))
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SCALES = (1e-45, 1e-38, 1e-30, 1e30, 1e38)
GUESSES = 300
"""How many records of arbitrary bytes a decoder is given."""


def check_encoding(
    encoding: Encoding | str,
    *,
    lossless: bool = False,
    error: float | None = None,
    unbiased: bool = False,
    constant: float | None = 0.0,
    any_scale: bool = True,
) -> None:
    """Check an encoding; an `AssertionError` says what does not hold.

    Args:
        encoding: the encoding, or its text, as in `method.compress.embedding`.
        lossless: what is read is what was written, to the last bit.
        error: the largest error of a component, in parts of the largest component.
        unbiased: over many rounds the error is zero in the mean.
        constant: the largest error where all components are equal, in parts of their value; None
            where such a tensor may be changed altogether.
        any_scale: components may be as small and as large as float32 can hold.

    Example:
        >>> check_encoding("scalar:8:minmax:dither", error=0.02, unbiased=True)
    """
    trial = _Trial(encoding)
    for check in (
        _keeps_shape_and_type, _repeats, _leaves_the_tensor_alone, _is_named_by_its_text,
        _can_be_trained_on, _is_as_long_as_announced, _is_told_from_others, _is_read_without_state,
        _is_read_as_it_shows, _goes_on_from_its_state, _refuses_what_does_not_hold_together,
        _reads_or_refuses_any_bytes,
    ):  # fmt: skip
        check(trial)
    _check_values(trial, lossless, error, constant, any_scale)
    _check_refusals(trial, lossless)
    if unbiased:
        _check_bias(trial)


class _Trial:
    """One encoding, and what a receiver makes of it that knows nothing but the frames."""

    def __init__(self, encoding: Encoding | str) -> None:
        if isinstance(encoding, str):
            encoding = parse(encoding, outside=True)
        self.encoding, self.name = encoding, describe(encoding)

    def encoder(self, key: Key = KEY) -> Encoder:
        return self.encoding.encoder(key)

    def packed(self, tensor: torch.Tensor, round: int = 0) -> Packed:
        return self.encoder().encode(tensor, occasion(tensor, round))

    def crossed(self, tensor: torch.Tensor, round: int = 0) -> torch.Tensor:
        return received(self.packed(tensor, round))

    def expect(self, holds: object, sentence: str) -> None:
        expect(holds, f"{self.name} {sentence}")


def occasion(tensor: torch.Tensor, round: int = 0, **more: Any) -> Occasion:
    """A round in which the importance of the columns is known."""
    width = tensor.shape[-1] if tensor.dim() else 1
    return Occasion(round, importance=torch.arange(float(width)), **more)


def received(packed: Packed) -> torch.Tensor:
    """What comes out of a frame."""
    message = Codec().decode(Codec().encode(Embedding(0, packed)))
    assert isinstance(message, Embedding)
    return decode(message.tensor)


def example(
    shape: tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 1
) -> torch.Tensor:
    """Normal numbers, the same each time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def written(packed: Packed) -> bytes:
    """All bytes of a record that are the encoding's own."""
    return packed.details + bytes(packed.data.view)


def _keeps_shape_and_type(trial: _Trial) -> None:
    for shape in SHAPES:
        for dtype in DTYPES:
            read = trial.crossed(example(shape, dtype))
            found = tuple(read.shape), read.dtype
            trial.expect(found == (shape, dtype), f"makes {found} of {(shape, dtype)}")
            trial.expect(
                torch.isfinite(read).all(), f"makes of {(shape, dtype)} what is not finite"
            )


def _repeats(trial: _Trial) -> None:
    tensor = example((16, 4))
    one, other = trial.packed(tensor, 5), trial.packed(tensor, 5)
    trial.expect(one.details == other.details, "writes other details with the same key and round")
    trial.expect(written(one) == written(other), "writes other bytes with the same key and round")
    rows = np.array([3, 1], np.int64)
    read = decode(trial.encoder().encode(tensor[:2], Occasion(rows=rows)))
    trial.expect(read.shape == (2, 4), "does not take the numbers of rows")


def _leaves_the_tensor_alone(trial: _Trial) -> None:
    tensor = example((9, 5)).requires_grad_()
    before = tensor.detach().clone()
    read = trial.crossed(tensor)
    trial.expect(torch.equal(tensor, before), "changes the tensor that it encodes")
    trial.expect(not read.requires_grad, "hands gradients on to the receiver")
    part = example((8, 12))[::2, 1::3]
    same = torch.equal(trial.crossed(part), trial.crossed(part.clone()))
    trial.expect(same, "reads a part of a larger tensor otherwise than its copy")


def _is_named_by_its_text(trial: _Trial) -> None:
    again = parse(trial.name, outside=True)
    trial.expect(again == trial.encoding, f"is the text of another encoding: {again!r}")
    trial.expect(hash(again) == hash(trial.encoding), "has no hash of its value: is it frozen?")


def _can_be_trained_on(trial: _Trial) -> None:
    read = trial.crossed(example((4, 2))).requires_grad_()
    torch.autograd.backward((read * 2).sum())
    good = read.grad is not None and torch.equal(read.grad, torch.full((4, 2), 2.0))
    trial.expect(good, "is read as a tensor that cannot be trained on")


def _is_as_long_as_announced(trial: _Trial) -> None:
    """The dry run says how many bytes leave, and knows the shape and the round only."""
    for round, shape in ((0, (8, 6)), (5, (8, 6)), (7, (1, 6)), (9, (33, 5))):
        out = Outbound(KEY.seed, KEY.sender, Secret(bytes(32))).stage("embedding", trial.encoding)
        template = Template(out, shape[1], torch.float32)
        rows = np.arange(shape[0])
        most = len(written(template.packed(Exchange(round, rows), torch.ones(shape[1]))))
        tensors = [example(shape, seed=seed) * 10.0**seed for seed in range(-3, 3)]
        for tensor in (*tensors, torch.zeros(shape), torch.ones(shape)):
            use = occasion(tensor, round, rows=rows)
            found = len(written(trial.encoder().encode(tensor, use)))
            constant = bool((tensor == tensor.view(-1)[0]).all())
            good = found <= most if constant else found == most
            trial.expect(good, f"takes {found} bytes for {shape} in round {round}, not {most}")


def _is_told_from_others(trial: _Trial) -> None:
    """A receiver takes what the encoding writes, and no plain tensor in its place."""
    encoder, unknown = trial.encoder(), trial.encoder()
    tensors = [example(shape, dtype) for shape in SHAPES for dtype in DTYPES]
    tensors += [torch.zeros(8, 6), torch.ones(8, 6)]
    for tensor in tensors:
        for round in (0, 1, 20):
            packed = encoder.encode(tensor, occasion(tensor, round))
            good = admits(trial.encoding, packed, round)
            trial.expect(good, f"writes {packed.codec} in round {round}, and does not admit it")
            first = unknown.encode(tensor, Occasion(round))
            good = admits(trial.encoding, first, round, known=False)
            trial.expect(good, f"does not admit {first.codec} where no importance is known")
            downgraded = admits(trial.encoding, plain().encode(tensor), round)
            trial.expect(
                downgraded == (packed.codec == "plain"),
                f"writes {packed.codec} in round {round}, and admits a plain tensor in its place",
            )


def _is_read_without_state(trial: _Trial) -> None:
    encoder, tensors = trial.encoder(), [example((4, 3), seed=seed) for seed in range(3)]
    records = [encoder.encode(each, occasion(each, n)) for n, each in enumerate(tensors)]
    for packed in records:
        tag, known = packed.codec, getattr(trial.encoding, "TAGS", (packed.codec,))
        trial.expect(tag in DECODERS, f"writes the tag '{tag}', for which there is no decoder")
        trial.expect(tag in known, f"writes the tag '{tag}', which is not among its TAGS")
    inverse = [received(packed) for packed in reversed(records)]
    for one, other in zip(map(received, records), reversed(inverse), strict=True):
        trial.expect(torch.equal(one, other), "is read otherwise in another order")


def _is_read_as_it_shows(trial: _Trial) -> None:
    """Both ends have the same to the last bit, also after a checkpoint of either."""
    rows, encoder, reader = np.array([2, 0, 1, 5]), trial.encoder(), decoder(trial.encoding)
    for round in range(6):
        tensor = example((4, 3), seed=round)
        for use in (occasion(tensor, round, rows=rows + round % 2), occasion(tensor, round)):
            packed = encoder.encode(tensor, use)
            read = reader.decode(packed, use)
            good = torch.equal(read, shown(encoder, packed))
            trial.expect(good, f"is read otherwise than its sender believes in round {round}")
        saved = b"".join(pack(Header(FORMAT), {"decoder": reader.state()}))
        reader = decoder(trial.encoding)
        reader.restore(unpack(saved)[1]["decoder"])


def _goes_on_from_its_state(trial: _Trial) -> None:
    rows, encoder = np.array([2, 0, 1, 5]), trial.encoder()

    def encode(by: Encoder, seed: int) -> bytes:
        tensor = example((4, 3), seed=seed)
        known = by.encode(tensor, occasion(tensor, seed, rows=rows))
        return written(known) + written(by.encode(tensor, occasion(tensor, seed)))

    for seed in range(3):
        encode(encoder, seed)
    saved = b"".join(pack(Header(FORMAT), {"encoder": encoder.state()}))
    wanted = [encode(encoder, seed) for seed in range(3, 6)]
    other = trial.encoder()
    other.restore(unpack(saved)[1]["encoder"])
    found = [encode(other, seed) for seed in range(3, 6)]
    trial.expect(found == wanted, "writes something else after a checkpoint")


def _refused(packed: Packed) -> bool:
    try:
        decode(packed)
    except WireError as error:
        return bool(str(error))
    return False


def _refuses_what_does_not_hold_together(trial: _Trial) -> None:
    whole = trial.packed(example((8, 6)))
    if whole.codec == "plain":
        return  # The frame's own lengths say what a plain tensor is.
    view, details = whole.data.view, whole.details
    wrong: dict[str, dict[str, Any]] = {
        "bytes that were cut": {"data": Buffer(view[:-1])},
        "a byte too many": {"data": Buffer(memoryview(bytes(view) + b"\0"))},
        "no bytes": {"data": Buffer(view[:0])},
        "the shape of a larger tensor": {"shape": (8, 16)},
        "a shape that no memory holds": {"shape": (2**40, 2**20)},
        "a type without fractions": {"dtype": "int64"},
        "details that are too long": {"details": details + b"\0"},
    }
    if details:
        wrong |= {"details that were cut": {"details": details[:-1]}, "none": {"details": b""}}
    for what, change in wrong.items():
        good = _refused(msgspec.structs.replace(whole, **change))
        trial.expect(good, f"does not refuse {what} with a WireError that has a sentence")


def _reads_or_refuses_any_bytes(trial: _Trial) -> None:
    whole = trial.packed(example((5, 6)))
    for record in (*_damaged(whole), *_guessed(whole)):
        if record.codec == "plain":
            continue
        try:
            read = decode(record)
        except WireError as error:
            trial.expect(str(error), "refuses bytes without a sentence")
            continue
        except Exception as error:
            sentence = f"{trial.name} breaks on bytes from a partner, {record.details!r} and "
            sentence += f"{bytes(record.data.view)!r}: {error!r} instead of a WireError"
            raise AssertionError(sentence) from error
        trial.expect(tuple(read.shape) == record.shape, "reads another shape than the record says")


def _damaged(whole: Packed) -> Iterator[Packed]:
    """The record cut anywhere, and with any one bit turned."""
    own, cut = written(whole), len(whole.details)
    for length in range(len(own)):
        part = own[:length]
        data = Buffer(memoryview(part[cut:]))
        yield msgspec.structs.replace(whole, details=part[:cut], data=data)
    for bit in range(8 * len(own)):
        turned = bytearray(own)
        turned[bit // 8] ^= 1 << bit % 8
        data = Buffer(memoryview(turned)[cut:])
        yield msgspec.structs.replace(whole, details=bytes(turned[:cut]), data=data)


def _guessed(whole: Packed) -> Iterator[Packed]:
    draw = np.random.default_rng(0)
    dtypes = ("float32", "float64", "float16", "bfloat16", "uint8")
    for _ in range(GUESSES):
        shape = tuple(int(extent) for extent in draw.integers(0, 6, draw.integers(0, 4)))
        details = draw.bytes([len(whole.details), int(draw.integers(0, 41))][draw.integers(2)])
        data = Buffer(memoryview(draw.bytes(int(draw.integers(0, 61)))))
        dtype = str(draw.choice(dtypes))
        yield msgspec.structs.replace(whole, dtype=dtype, shape=shape, details=details, data=data)


def _check_values(
    trial: _Trial, lossless: bool, error: float | None, constant: float | None, any_scale: bool
) -> None:
    for value in (0.0, -2.5, 1e-45, -3e4) if constant is not None else ():
        tensor = torch.full((6, 3), value)
        apart = (trial.crossed(tensor) - tensor).abs().max().item()
        allowed = (constant or 0.0) * abs(value) + (1e-7 if constant else 0.0)
        trial.expect(apart <= allowed, f"reads {value} everywhere with an error of {apart}")
    for scale in SCALES if any_scale else ():
        tensor = example((32, 8)).clamp(-3, 3) * scale
        read = trial.crossed(tensor)
        good = torch.isfinite(read).all() and read.abs().max() <= 4 * tensor.abs().max()
        trial.expect(good, f"does not keep components of about {scale} in proportion")
    for dtype in DTYPES if lossless else ():
        tensor = example((7, 5), dtype)
        trial.expect(torch.equal(trial.crossed(tensor), tensor), f"loses something of a {dtype}")
    for scale in (0.01, 1.0, 100.0) if error is not None else ():
        tensor = example((64, 8)) * scale
        apart = ((trial.crossed(tensor) - tensor).abs().max() / tensor.abs().max()).item()
        trial.expect(error is not None and apart <= error, f"has an error of {apart:.4g}")


def _check_refusals(trial: _Trial, lossless: bool) -> None:
    """What cannot be written is refused by role and sender; without losses it may be written."""
    wrong = [example((4, 4)) for _ in range(3)]
    for tensor, bad in zip(wrong, (float("nan"), float("inf"), float("-inf")), strict=True):
        tensor[2, 1] = bad
    for tensor in (*wrong, torch.arange(4).view(2, 2)):
        what = "whole numbers" if tensor.dtype is torch.int64 else f"{tensor[2, 1].item()}"
        try:
            read = trial.crossed(tensor)
        except PartyError as error:
            told = "embedding of 'partner'" in str(error)
            trial.expect(told, f"refuses {what} without saying whose tensor it is: {error}")
            continue
        bits = tensor.view(torch.uint8), read.view(torch.uint8)
        trial.expect(lossless, f"writes {what} instead of refusing it with a PartyError")
        trial.expect(torch.equal(*bits), f"writes {what} and reads something else")


def _check_bias(trial: _Trial) -> None:
    tensor, encoder, count = example((16, 4)), trial.encoder(), 400
    errors = torch.stack(
        [decode(encoder.encode(tensor, occasion(tensor, round))) - tensor for round in range(count)]
    ).double()
    deviation = errors.std(0) / count**0.5
    good = (errors.mean(0).abs() <= 6 * deviation + 1e-6 * tensor.abs().max()).all()
    trial.expect(good, f"has an error that is not zero in the mean of {count} rounds")


_SCRIPT = """
import hashlib, sys, torch
from colonnade.compress import Key, Occasion, parse
tensor = torch.randn(64, 33, generator=torch.Generator().manual_seed(1))
for text in sys.argv[1:]:
    encoder = parse(text, outside=True).encoder(Key(3, "partner", "embedding", "bank"))
    packed = encoder.encode(tensor, Occasion(7, importance=torch.arange(33.0)))
    print(hashlib.sha256(packed.details + bytes(packed.data.view)).hexdigest())
"""


def check_processes(*texts: str) -> None:
    """Check that two Python processes, whose hashes differ, write the same bytes.

    >>> check_processes("scalar:4:dither")
    """
    outputs = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", _SCRIPT, *texts]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        expect(done.returncode == 0, f"a process of its own cannot write: {done.stderr}")
        outputs.append(done.stdout.split())
    for text, one, other in zip(texts, *outputs, strict=True):
        expect(one == other, f"{text} is written otherwise in another process: does it use hash()?")
