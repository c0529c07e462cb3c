import pickle
import subprocess
import sys

import pytest

from adjoint.core.op import OPS, Op, register


def test_every_op_is_in_the_table_once():
    for name, op in OPS.items():
        assert op.name == name
    with pytest.raises(ValueError, match="exists already"):
        register(Op("sin", abs))


def test_ops_pickle_by_name_across_processes():
    assert pickle.loads(pickle.dumps(OPS["sin"])) is OPS["sin"]
    script = (
        "import pickle, sys, adjoint.scipy.special as s; from adjoint.core.op import OPS; "
        "sys.stdout.buffer.write(pickle.dumps(OPS['erf']))"
    )
    data = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    load = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()))"
    out = subprocess.run([sys.executable, "-c", load], input=data, capture_output=True, check=True).stdout
    assert b"op 'erf'" in out


def test_repr_names_the_kind():
    assert repr(OPS["sin"]) == "<elementwise op 'sin'>"
    assert repr(OPS["sum"]) == "<linear op 'sum'>"
    assert repr(OPS["matmul"]) == "<multilinear op 'matmul'>"
