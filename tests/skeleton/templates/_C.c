/* torch._C: as in the real torch, a shell round libtorch_python. */
#include <Python.h>

PyObject *initModule(void);
PyMODINIT_FUNC PyInit__C(void) { return initModule(); }
