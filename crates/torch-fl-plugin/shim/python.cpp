// What Python asks of the shim: every function is called with the GIL held and sets the Python error when it fails.
#include "fl.h"

#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>

namespace fl {
int32_t guarded(c10::function_ref<void()> f) noexcept {
  try {
    f();
    return 0;
  } catch (python_error& e) {
    e.restore();
  } catch (...) {
    try {
      torch::translate_exception_to_python(std::current_exception());
    } catch (...) {
      PyErr_SetString(PyExc_RuntimeError, "flagos: an exception that is no std::exception");
    }
  }
  return -1;
}
}  // namespace fl

using namespace fl;

namespace {
const c10::impl::DeviceGuardImplInterface* guard() { return c10::impl::getDeviceGuardImpl(FLAGOS); }

// Whoever came first, told before anything of ours is registered: PyTorch itself would abort, or mix the two.
std::string claimed() {
  if (c10::is_privateuse1_backend_registered()) return "the name '" + c10::get_privateuse1_backend() + "'";
  if (c10::impl::hasDeviceGuardImpl(FLAGOS)) return "a device guard";
  if (at::isPrivateUse1HooksRegistered()) return "hooks";
  const auto kernels = c10::Dispatcher::singleton().getRegistrationsForDispatchKey(DispatchKey::PrivateUse1);
  for (const auto& name : kernels)
    if (fl_is_foreign_kernel(name.name.c_str())) return "a kernel of " + toString(name);
  try {
    if (c10::GetAllocator(FLAGOS)) return "an allocator";
  } catch (const c10::Error&) {
  }
  return {};
}

const Tensor& unpack(PyObject* o) {
  TORCH_CHECK_TYPE(THPVariable_Check(o), "expected a tensor, got ", Py_TYPE(o)->tp_name);
  return THPVariable_Unpack(o);
}
}  // namespace

PyObject* fl_claimed() {
  PyObject* r = nullptr;
  guarded([&] {
    const auto by = claimed();
    r = PyUnicode_FromStringAndSize(by.data(), static_cast<Py_ssize_t>(by.size()));
  });
  return r;
}

int32_t fl_init(bool host) {
  return guarded([&] {
    if (host) target = {DeviceType::CPU, BackendComponent::CPUBit, true};
    TORCH_CHECK(c10::impl::hasDeviceGuardImpl(target.type), "no library of this process brings the device '", target.type,
                "', on which flagos is to run");
    register_runtime();
  });
}

int32_t fl_device_count() { return guard()->deviceCount(); }
int32_t fl_current_device(int32_t* i) {
  return guarded([&] { *i = guard()->getDevice().index(); });
}
int32_t fl_set_device(int32_t i) {
  return guarded([&] {
    TORCH_CHECK_INDEX(i >= 0 && i < guard()->deviceCount(), "flagos: there is no device ", i);
    guard()->setDevice(Device(FLAGOS, static_cast<DeviceIndex>(i)));
  });
}
int32_t fl_synchronize(int32_t i) {
  return guarded([&] {
    pybind11::gil_scoped_release nogil;
    guard()->synchronizeDevice(i < 0 ? guard()->getDevice().index() : static_cast<DeviceIndex>(i));
  });
}
int32_t fl_ensure_init() {
  return guarded([] { ensure_init(); });
}

PyObject* fl_default_generator(int32_t i) {
  PyObject* r = nullptr;
  guarded([&] {
    r = THPGenerator_Wrap(at::globalContext().defaultGenerator(Device(FLAGOS, static_cast<DeviceIndex>(i))));
  });
  return r;
}

// The same memory under the other device: of a flagos tensor as one of the target, and back.
PyObject* fl_to_target(PyObject* tensor) {
  PyObject* r = nullptr;
  guarded([&] {
    const auto& t = unpack(tensor);
    TORCH_CHECK_TYPE(is_flagos(t), "expected a flagos tensor, got one on ", t.device());
    Frame frame;
    r = THPVariable_Wrap(frame.exported(t));
  });
  return r;
}
PyObject* fl_from_target(PyObject* tensor) {
  PyObject* r = nullptr;
  guarded([&] {
    const auto& t = unpack(tensor);
    TORCH_CHECK_TYPE(t.device().type() == target.type && !is_flagos(t), "expected a tensor on ", target.type, ", got one on ",
                     t.device());
    Frame frame;
    r = THPVariable_Wrap(frame.result(t.detach()));
  });
  return r;
}

// Bytes at `p`, which `release(context)` gives back when the last tensor over them has gone.
PyObject* fl_from_pointer(void* p, uint64_t bytes, int32_t device, void (*release)(void*), void* context) {
  PyObject* r = nullptr;
  guarded([&] {
    c10::DataPtr data(p, context, release, to_target(Device(FLAGOS, static_cast<DeviceIndex>(device))));
    auto twin = c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                                 c10::GetAllocator(target.type), false);
    const DispatchKeySet keys(c10::toRuntimePerBackendFunctionalityKey(DispatchKey::Dense, FLAGOS_BIT));
    auto t = c10::make_intrusive<TensorImpl>(Storage(wrap_storage(std::move(twin))), keys, c10::scalarTypeToTypeMeta(at::kByte));
    t->set_sizes_contiguous({static_cast<int64_t>(bytes)});
    r = THPVariable_Wrap(Tensor(std::move(t)));
  });
  return r;
}
