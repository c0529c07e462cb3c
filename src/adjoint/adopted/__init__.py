"""Private copies of other people's modules, made by `ad.adopt`: `adjoint.adopted.iapws.iapws97` is a copy of `iapws.iapws97`.

They are ordinary entries of `sys.modules` under names of their own, so that pickle, inspect, typing and dataclasses find them. A
module here can be imported as any other:

    from adjoint.adopted.iapws import iapws97
"""

from ..adopt.copies import install

__path__ = []  # type: ignore[no-redef]
install()
