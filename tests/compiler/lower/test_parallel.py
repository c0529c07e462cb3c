"""Groups of steps that may run at the same time: which are grouped, in which order, and that they share no memory."""

import itertools

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.fuse import lower
from adjoint.compiler.lower.kernel import Buffer, Kernel, View
from adjoint.compiler.lower.memory import plan
from adjoint.compiler.lower.parallel import group_parallel
from adjoint.compiler.lower.step import Foreign, Lowered, ParallelGroup, Product, Scan, can_fail

X = np.linspace(0.1, 0.9, 4)
LONG, SHORT = 3000, 20


def loop(x, iterations=LONG, reverse=False):
    return ad.scan(lambda c, _: (np.sin(c) + 0.1, None), x, None, length=iterations, reverse=reverse)[0]


def steps(f, *args):
    return lower(ad.graph(f)(*args)).steps


def groups(f, *args):
    return [step for step in steps(f, *args) if isinstance(step, ParallelGroup)]


def kinds(group):
    return [[type(step).__name__ for step in member.steps] for member in group.members]


# -- programs --


def test_two_loops():
    first, second = steps(lambda x: loop(x) * loop(x + 1), X)[-2:]
    assert isinstance(first, ParallelGroup)
    assert kinds(first) == [["Scan"], ["Scan"]]
    assert isinstance(second, Kernel)


def test_loops_that_need_each_other():
    assert not groups(lambda x: loop(loop(x) * 2), X)


def test_short_loops_are_left_alone():
    assert not groups(lambda x: loop(x, SHORT) + loop(x * 2, SHORT), X)
    assert not groups(lambda x: loop(x, LONG) + loop(x * 2, SHORT), X)


def test_steps_that_need_one_member_join_it():
    def chain(x):
        return loop(loop(x)[::-1])

    (group,) = groups(lambda x: (chain(x), loop(x * 2, 3 * LONG)), X)
    assert [member.count("Scan") for member in kinds(group)] == [2, 1]
    # The second loop of a chain would make its member the longest: it waits for one to run with.
    found = groups(lambda x: (chain(x), chain(x * 2)), X)
    assert [[member.count("Scan") for member in kinds(group)] for group in found] == [[1, 1], [1, 1]]


def test_two_loops_after_one():
    def fork(x):
        y = loop(x)
        return loop(y), loop(y * 2)

    found = groups(lambda x: (fork(x), loop(x * 3)), X)
    assert [[member.count("Scan") for member in kinds(group)] for group in found] == [[1, 1], [1, 1]]


def test_one_kernel_may_be_split_between_members():
    """What the second loop starts from is over the same points as what is made of the result of the first."""

    def f(x):
        first = loop(x)
        made = np.exp(first), np.sum(first)
        return made, loop(np.cos(x) + np.sum(x))

    (group,) = groups(f, X)
    assert [member.count("Scan") for member in kinds(group)] == [1, 1]


def test_loops_on_the_way_back():
    """Each way, the loops do not need each other; the way back needs both."""
    found = groups(ad.grad(lambda x: np.sum(loop(x) * loop(x * 2))), X)
    assert [[member.count("Scan") for member in kinds(group)] for group in found] == [[1, 1], [1, 1]]


def test_dependences_of_a_member_come_before_it():
    def f(x, m):
        first = loop(x)
        return first + loop(np.sum(m, axis=0)), first * 2

    before, group, *_ = steps(f, X, np.ones((3, 4)))
    assert isinstance(before, Kernel)
    assert isinstance(group, ParallelGroup)


def test_three_loops_and_steps_in_between():
    (group,) = groups(lambda x: [loop(x), np.sum(np.exp(x)), loop(x * 2), np.outer(x, x), loop(x * 3)], X)
    assert kinds(group) == [["Scan"]] * 3


def test_whiles_branches_and_scatters():
    def until(x):
        return ad.while_loop(lambda c: np.sum(c) < 1e6, lambda c: c * 1.001 + np.sin(c) ** 2, x)

    assert len(groups(lambda x: until(x) + until(x * 2), X)) == 1
    assert len(groups(lambda x: ad.cond(x[0] > 0, loop, lambda v: v, x) + loop(x), X)) == 1

    def add(x, v):
        x = x.copy()
        np.add.at(x, np.arange(len(v)) % 50, np.sin(v))
        return x

    (group,) = groups(lambda x, v: (add(x, v), add(x, v[1:])), np.ones(50), np.ones(5000))
    assert all(any(step.scatters for step in member.steps) for member in group.members)


def test_calls_of_python_are_not_passed():
    assert not groups(lambda x: [loop(x), np.fft.fft(x), loop(x * 2)], X)
    slow = lambda x: ad.scan(lambda c, _: (np.real(np.fft.fft(c)), None), x, None, length=LONG)[0]
    assert not groups(lambda x: (slow(x), slow(x * 2)), X)
    assert any(isinstance(step, Foreign) for step in steps(lambda x: np.fft.fft(x), X))


def test_steps_that_use_all_cores_are_not_members():
    big = np.ones(300_000)
    assert not groups(lambda x: (np.sum(np.sin(x)), np.sum(np.cos(x[:-1]))), big)
    assert not groups(lambda a: (a @ a, a.T @ (a + 1)), np.ones((150, 150)))
    assert not groups(lambda a: (np.linalg.cholesky(a), np.linalg.cholesky(a + 1)), np.eye(120))
    inside = lambda a: ad.scan(lambda c, _: (np.tanh(a @ c), None), a, None, length=9)[0]
    assert not groups(lambda a: (inside(a), inside(a * 2)), np.eye(120))
    small = groups(lambda a: (np.linalg.cholesky(a), np.linalg.cholesky(a + 1)), np.stack([np.eye(20)] * 20))
    assert len(small) == 1  # none of these matrices is large enough for the threads of BLAS


def test_groups_print():
    program = lower(ad.graph(lambda x: loop(x) * loop(x + 1))(X))
    text = str(program)
    assert "parallel group of 2 members:" in text
    assert text.count("  member") == 2
    assert text.count("scan of 3000 iterations") == 2


# -- programs drawn at random, of steps that do nothing --

FLOAT = np.dtype(float)


def drawn(rng):
    """Steps that read and write some of a few buffers; some are long, some can fail, some call Python, some use all cores."""
    buffers = [Buffer(i, FLOAT, int(rng.integers(1, 40)), "local") for i in range(int(rng.integers(4, 14)))]
    views = [View.whole(b, (b.size,)) for b in buffers]
    inside = Lowered([], [], [], [])
    fails = Lowered([], [], [], [], out_of_bounds=[View.whole(Buffer(-1, np.dtype(bool), 1, "local"), ())])
    wide = Product(*[View.whole(buffers[0], (150, 150))] * 3, {})
    busy = Lowered([], [wide], [], [])
    found = []
    for _ in range(int(rng.integers(3, 14))):
        some = [views[i] for i in rng.permutation(len(views))[: int(rng.integers(1, 5))]]
        cut = int(rng.integers(0, len(some)))
        kind = rng.random()
        if kind < 0.05:
            found.append(Foreign(None, tuple(some[:cut]), {}, tuple(some[cut:]), {}))
            continue
        body = fails if kind < 0.35 else busy if kind < 0.45 else inside
        iterations = LONG if rng.random() < 0.6 else 1
        found.append(Scan(body, iterations, False, tuple(some[:cut]), (), (), tuple(some[cut:]), (), (), (), {}))
    asked = [(views[0], "singular")] if rng.random() < 0.5 else []
    return Lowered(buffers, found, [], [], None, [], asked)


def conflict(one, two):
    reads, writes = (
        ({v.buffer for v in step.reads()} for step in (one, two)),
        ({v.buffer for v in step.writes()} for step in (one, two)),
    )
    (r1, r2), (w1, w2) = reads, writes
    return bool(w1 & (r2 | w2) or r1 & w2)


def flat(program):
    return [inner for step in program.steps for inner in (_all(step) if isinstance(step, ParallelGroup) else [step])]


def _all(group):
    return [step for member in group.members for step in member.steps]


@pytest.mark.parametrize("chunk", range(4))
def test_random_steps(chunk):
    rng = np.random.default_rng(chunk)
    made = 0
    for _ in range(150):
        program = drawn(rng)
        before = list(program.steps)
        group_parallel(program)
        plan(program)
        after = flat(program)
        assert sorted(map(id, before)) == sorted(map(id, after))
        order = {id(step): i for i, step in enumerate(after)}
        for i, first in enumerate(before):
            for second in before[i + 1 :]:
                if conflict(first, second) or (can_fail(first) and can_fail(second)):
                    assert order[id(first)] < order[id(second)]
        for group in program.steps:
            if isinstance(group, ParallelGroup):
                made += 1
                check_group(program, group)
    assert made > 20


def check_group(program, group):
    members = [member.steps for member in group.members]
    for i, one in enumerate(members):
        assert any(step.length == LONG for step in one)
        assert not any(isinstance(step, Foreign) or step.body.steps for step in one)
        for other in members[i + 1 :]:
            assert not any(conflict(a, b) for a in one for b in other)
    # What the members use lies apart, each member's own arrays in its own scratch.
    used = list(dict.fromkeys(v.buffer for v in (*group.reads(), *group.writes())))
    places = sorted((program.offsets[b], program.offsets[b] + b.nbytes) for b in used)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(places))
    for member, scratch in zip(group.members, group.scratch, strict=True):
        assert scratch.buffer.nbytes == member.arena
        touched = {v.buffer for step in member.steps for v in (*step.reads(), *step.writes())}
        given = {*member.inputs, *(v.buffer for v in member.outputs)}
        assert touched == given | set(member.buffers)
        assert set(member.offsets) == set(member.buffers)
        assert not set(member.buffers) & (set(program.buffers) | given)
        assert not {failed.buffer for failed, _ in program.failures} & set(member.buffers)
