"""Calls every function of the table through ctypes: by_ctypes.py RUNTIME, beside libroute.so."""
import ctypes
import os
import sys

runtime = ctypes.CDLL(sys.argv[1])
route = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libroute.so"))
rows = ctypes.c_int.in_dll(route, "route_rows").value
names = (ctypes.c_char_p * rows).in_dll(route, "route_names")

route.route_stub(ctypes.c_void_p(runtime._handle))
answers = (ctypes.c_int * rows)(*[getattr(runtime, name.decode())() for name in names])
route.route_report(b"ctypes", answers)
