/* Stands in for the headers of a Python that is not here, or of another machine's: as much of its C API as the
 * templates use. What is compiled against it has the real names as undefined symbols, and is never imported. */
#ifndef PYTHON_H
#define PYTHON_H

#include <stddef.h>

typedef struct _object PyObject;
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef struct { const char *ml_name; PyCFunction ml_meth; int ml_flags; const char *ml_doc; } PyMethodDef;
struct PyModuleDef { int m_base; const char *m_name, *m_doc; ptrdiff_t m_size; PyMethodDef *m_methods; };

#define PyModuleDef_HEAD_INIT 0
#define METH_VARARGS 1
#define METH_NOARGS 4
#define PyMODINIT_FUNC __attribute__((visibility("default"))) PyObject *

extern PyObject *PyExc_RuntimeError, _Py_NoneStruct;
PyObject *Py_BuildValue(const char *, ...);
int PyArg_ParseTuple(PyObject *, const char *, ...);
PyObject *PyBool_FromLong(long);
PyObject *PyLong_FromLong(long);
PyObject *PyFloat_FromDouble(double);
PyObject *PyErr_Format(PyObject *, const char *, ...);
PyObject *PyTuple_GetItem(PyObject *, ptrdiff_t);
int PyUnicode_CompareWithASCIIString(PyObject *, const char *);
PyObject *PyModule_Create2(struct PyModuleDef *, int);

#define PyModule_Create(module) PyModule_Create2(module, 1013)
#define PyTuple_GET_ITEM PyTuple_GetItem
#define Py_RETURN_NONE return &_Py_NoneStruct

#endif
