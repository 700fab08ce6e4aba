/* libtorch_python: the module torch._C. */
#include <Python.h>
#include "skeleton.h"

const char *at_device_hooks(void);
double at_add(double a, double b);
int at_get_num_threads(void);
const char *c10_build(void);
const char *shm_build(void);
const char *torch_lib_build(void);
const char *torch_cpu_build(void);

static PyObject *builds(PyObject *self, PyObject *none) {
  return Py_BuildValue("{ssssssssss}", "libc10.so", c10_build(), "libtorch_cpu.so", torch_cpu_build(), "libtorch.so",
                       torch_lib_build(), "libshm.so", shm_build(), "libtorch_python.so", torch_build());
}

static PyObject *has_kernel(PyObject *self, PyObject *args) {
  const char *op, *key;
  if (!PyArg_ParseTuple(args, "ss", &op, &key)) return NULL;
  return PyBool_FromLong(c10_has_kernel(op, key));
}

static PyObject *init_device(PyObject *self, PyObject *args) {
  const char *key, *met = at_device_hooks();
  if (!PyArg_ParseTuple(args, "s", &key)) return NULL;
  if (!met || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(args, 0), met))
    return PyErr_Format(PyExc_RuntimeError, "Cannot initialize %s without ATen_%s library.", key, key);
  Py_RETURN_NONE;
}

static PyObject *device_hooks(PyObject *self, PyObject *none) { return Py_BuildValue("z", at_device_hooks()); }
static PyObject *num_threads(PyObject *self, PyObject *none) { return PyLong_FromLong(at_get_num_threads()); }

static PyObject *add(PyObject *self, PyObject *args) {
  double a, b;
  if (!PyArg_ParseTuple(args, "dd", &a, &b)) return NULL;
  return PyFloat_FromDouble(at_add(a, b));
}

static PyMethodDef methods[] = {
    {"_builds", builds, METH_NOARGS, "Which build each core library that this process bound belongs to."},
    {"_dispatch_has_kernel_for_dispatch_key", has_kernel, METH_VARARGS, "Whether KEY has a kernel for OP."},
    {"_init_device", init_device, METH_VARARGS, "Fails unless KEY's hooks were there when torch was initialised."},
    {"_device_hooks", device_hooks, METH_NOARGS, "The key whose hooks were there when torch was initialised."},
    {"_add", add, METH_VARARGS, "a + b, by libtorch_cpu."},
    {"get_num_threads", num_threads, METH_NOARGS, "As libgomp says."},
    {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "torch._C", NULL, -1, methods};

PyObject *initModule(void) {
  at_device_hooks();
  return PyModule_Create(&module);
}
